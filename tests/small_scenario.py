"""A small valid scenario, written with some of its files changed, and what is then wrong with it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.load import load, problems

SERVICES = frozenset({"Trainer", "Default", "Flower"})
STRATEGIES = frozenset({"allreduce", "gossip"})

LAYERS = """\
environment:
  g5k: {cluster: paradoxe}
layers:
- name: edge
  services:
  - {name: Trainer, quantity: 2, env: &t {strategy: allreduce}}
- name: cloud
  services:
  - {name: Trainer, env: *t}
  - {name: Default}
"""
NETWORK = """\
networks:
- {src: edge.*, dst: cloud.*, delay: 10ms, rate: 10mbit}
"""
WORKFLOW = "- {hosts: '*.trainer.*', launch: []}\n"


def writer(folder: Path) -> Callable[..., Path]:
    """A function that writes the scenario to ``folder``, with files changed by keyword, and returns the folder."""

    def write(layers=LAYERS, network=NETWORK, workflow=WORKFLOW, **others):
        files = {"layers_services": layers, "network": network, "workflow": workflow, **others}
        for name, text in files.items():
            (folder / f"{name}.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder

    return write


def found(path):
    return [str(error) for error in problems(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: [])]


def only(path):
    errors = found(path)
    assert len(errors) == 1, errors
    assert "\n" not in errors[0]
    with pytest.raises(ScenarioError) as raised:
        load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: [])
    assert str(raised.value) == errors[0]
    return errors[0]


def replaced(text, old, new):
    assert old in text
    return text.replace(old, new)
