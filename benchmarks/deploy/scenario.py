"""What both sides deploy: a third of the hosts in each layer, every host linked to every other."""

from __future__ import annotations

from pathlib import Path

LAYERS = ("edge", "fog", "cloud")
RATE, DELAY = "100mbit", "10ms"

_LAYER = """\
- name: {layer}
  services:
  - {{name: Trainer, quantity: {quantity}, env: {{strategy: allreduce, iterations: 1}}}}
"""
_HEAD = """\
environment:
  job_name: deploy
  g5k: {cluster: paradoxe}
layers:
"""


def shares(hosts: int) -> dict[str, int]:
    """layer -> how many of ``hosts`` it has; at least one."""
    each, more = divmod(hosts, len(LAYERS))
    return {layer: each + (index < more) for index, layer in enumerate(LAYERS)}


def write(folder: Path, hosts: int) -> Path:
    """The scenario of so many ``hosts``, in ``folder``, which is made; returns it."""
    folder.mkdir(parents=True)
    workflow = Path(__file__).parents[2] / "experiments" / "first-light" / "workflow.yaml"
    layers = "".join(_LAYER.format(layer=layer, quantity=quantity) for layer, quantity in shares(hosts).items())
    (folder / "layers_services.yaml").write_text(_HEAD + layers, encoding="utf-8")
    (folder / "network.yaml").write_text(
        f"networks:\n- {{src: '*.*', dst: '*.*', delay: {DELAY}, rate: {RATE}}}\n", encoding="utf-8"
    )
    (folder / "emulation.yaml").write_text("compute: {method: sleep, cores: 0.01}\n", encoding="utf-8")
    (folder / "workflow.yaml").write_text(workflow.read_text(encoding="utf-8"), encoding="utf-8")
    return folder
