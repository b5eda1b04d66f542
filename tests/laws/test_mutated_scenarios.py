"""However a scenario's files are damaged, it is read or refused in one line: never a traceback."""

import copy
import datetime as dt
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.load import load, problems
from e2c_dl.scenario.model import Scenario

FIRST_LIGHT = Path(__file__).parents[2] / "experiments" / "first-light"
SERVICES, STRATEGIES = frozenset({"Trainer", "Default"}), frozenset({"allreduce"})
ORIGINALS = {
    **{name: (FIRST_LIGHT / name).read_bytes() for name in ("layers_services.yaml", "network.yaml", "emulation.yaml")},
    "workflow.yaml": b"- hosts: edge.*:fog.*:cloud.*\n  depends_on:\n  - {service_selector: fog.*, prefix: a, "
    b"grouping: asarray}\n  prepare:\n  - ansible.builtin.command: {cmd: 'true'}\n  launch: []\n",
    "workflow_env.yaml": b"small: {size: 1, name: a}\n",
}
VALUES = {name: yaml.safe_load(raw) for name, raw in ORIGINALS.items()}

JUNK = st.one_of(
    st.sampled_from(
        [
            None, True, False, 0, -1, 10**30, 10**4000, 0.0, -0.5, math.nan, math.inf, 1e308, "", " ", "random", "edge",
            "edge.*", "*", "all:!edge.*", "!", "&", ":", "~(", "[", "]", "10mbps", "1e-3", "\n", "\x07", "é\u2028", [],
            [[]], {}, {"": None}, {None: 1}, {1: 2}, {True: {}}, b"\x00\xff", dt.date(2020, 1, 1),
            "a" * 5000, "9" * 5000, "g5k", "Trainer", "=", "<<", "${x}", "{{ x }}",
        ]
    ),
    st.text(max_size=20),
    st.integers(),
    st.floats(),
)  # fmt: skip
TRICKS = st.sampled_from(
    [
        b"&a [*a]", b"&a {b: *a}", b"{<<: {a: 1}}", b"<<: *training", b"*nobody", b"!!python/object:os.x y", b"!!int x",
        b"!!timestamp x", b"!!binary x", b"!!set {a, b}", b"!!omap [a: 1]", b"---", b"...", b"%YAML 9.9", b"\t",
        b"\xff", b"\x00", b"\xef\xbb\xbf", b"? [a]: b", b": ", b"- ", b"'", b'"', b"{", b"[" * 50, b"[" * 3000, b"|\n",
        b"\r", b"2001-99-99", b"0x" + b"f" * 5000, b"1" * 5000, b"12:00:00", b".nan", b"a: 1\na: 2\n",
    ]
)  # fmt: skip


def places(value, path=()):
    """Every path into a structure."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in children:
        yield from places(inner, (*path, key))


def at(value, path):
    for step in path:
        value = value[step]
    return value


@st.composite
def restructured(draw, name):
    """The file with a few keys deleted, renamed or doubled, or values replaced by junk or by each other."""
    value = copy.deepcopy(VALUES[name])
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(value))))
        if not path:
            continue
        parent, key = at(value, path[:-1]), path[-1]
        match draw(st.sampled_from(["delete", "junk", "junk", "rename", "swap", "wrap", "double"])):
            case "delete":
                del parent[key]
            case "junk":
                parent[key] = copy.deepcopy(draw(JUNK))
            case "rename" if isinstance(parent, dict):
                text = str(key)
                renamed = draw(st.sampled_from([text.upper(), text[1:], text + "s", text[::-1], 7, None]))
                parent[renamed] = parent.pop(key)
            case "swap":
                other = draw(st.sampled_from(list(places(VALUES[name]))))
                parent[key] = copy.deepcopy(at(VALUES[name], other))
            case "wrap":
                parent[key] = [parent[key]] if draw(st.booleans()) else {"a": parent[key]}
            case "double" if isinstance(parent, list):
                parent.append(parent[key])
    return yaml.dump(value, sort_keys=False, allow_unicode=draw(st.booleans())).encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw, name):
    """The file with a few bytes deleted, inserted or replaced, or cut off."""
    raw = ORIGINALS[name]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 12)))
        inserted = draw(st.one_of(st.binary(max_size=6), TRICKS, st.just(b"")))
        raw = raw[:start] + inserted + (b"" if draw(st.integers(0, 9)) == 0 else raw[end:])
    return raw


MUTATIONS = st.sampled_from(sorted(ORIGINALS)).flatmap(
    lambda name: st.tuples(st.just(name), st.one_of(restructured(name), damaged(name)))
)


def ring(_name, size):
    return [(rank, (rank + 1) % size) for rank in range(size)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("mutated")
    for name, raw in ORIGINALS.items():
        (path / name).write_bytes(raw)
    return path


def test_the_scenario_that_is_mutated_is_sound(folder):
    assert problems(folder, SERVICES, strategies=STRATEGIES, used_links=ring) == ()


# The folder is shared by all examples: each puts back what it changed.
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(mutation=MUTATIONS)
def test_a_mutated_scenario_is_loaded_or_refused_in_one_line(folder, mutation):
    name, raw = mutation
    (folder / name).write_bytes(raw)
    try:
        errors = problems(folder, SERVICES, strategies=STRATEGIES, used_links=ring)
        if errors:
            with pytest.raises(ScenarioError) as refused:
                load(folder, SERVICES, strategies=STRATEGIES, used_links=ring)
            assert str(refused.value) == str(errors[0])
        else:
            assert isinstance(load(folder, SERVICES, strategies=STRATEGIES, used_links=ring), Scenario)
    finally:
        (folder / name).write_bytes(ORIGINALS[name])
    for error in errors:
        message = str(error)
        assert message.splitlines() == [message]
        assert message.isprintable()
        assert error.file in message
        assert error.problem.strip()
        assert error.remedy.strip()
        assert len(message) < 1000


@settings(max_examples=60, deadline=None)
@given(changed=st.sets(st.sampled_from(sorted(ORIGINALS)), min_size=1), data=st.data())
def test_files_damaged_together_are_all_named(folder, changed, data):
    """A file that is no YAML at all is reported even if others are wrong, too."""
    for name in changed:
        (folder / name).write_bytes(data.draw(st.sampled_from([b"", b"[", b"\xff", b"a: 1\na: 1"])))
    try:
        errors = problems(folder, SERVICES, strategies=STRATEGIES, used_links=ring)
    finally:
        for name in changed:
            (folder / name).write_bytes(ORIGINALS[name])
    assert changed <= {error.file for error in errors}
