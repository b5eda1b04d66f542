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
EMULATION = b"""\
compute: {method: sleep, cores: 0.04, factors: {edge.*: 1.5, fog-1: 1}}
links:
- {src: edge.*, dst: fog.*, symmetric: true, jitter: 2ms, distribution: normal, reorder: 1%, queue: 2 bdp}
- {src: fog.*, dst: cloud.*, queue: 200 frames, burst: {good_to_bad: 1%, bad_to_good: 30%, loss_in_bad: 90%}}
bottlenecks:
- {name: campus, rate: 100mbit, queue: 64KiB, links: [{src: edge.*, dst: cloud.*}, {src: fog-1, dst: cloud-1}]}
schedules:
  links:
  - {src: edge.*, dst: fog-1, rate: {steps: {0s: 40mbit, 20s: 10mbit}, period: 60s}, loss: {ramp: {0s: 0%, 9s: 1%}}}
  - {src: edge-1, dst: edge-2, rate: {trace: traces/lte.csv}, delay: {steps: {0s: 1ms}}}
  - {src: edge-2, dst: edge-1, rate: {trace: traces/lte.down, window: 20ms}}
  bottlenecks: [{name: campus, rate: {ramp: {0s: 100mbit, 1min: 5mbit}}}]
  compute: [{host: edge.*, factor: {steps: {0s: 1, 5s: 3}}}, {host: fog-1, cores: {ramp: {0s: 0.04, 9s: 0.01}}}]
  thermal: [{host: edge.*, ambient: 25, rise: 60, throttled_rise: 30, tau: 20s, limit: 70, hysteresis: 5, factor: 2}]
injected:
  seed: 1
  compute: [{host: random, factor: 3}]
  links: [{src: random, dst: random, rate_factor: 0.3}]
  faults:
  - {cut: [{src: edge-1, dst: cloud-1, symmetric: true}, {src: random, dst: random}], at: 20s, for: 5s}
  - {partition: [[edge.*], [fog.*, cloud.*]], at: iteration 30, for: 5s}
  - {pause: edge-1, at: 10s, for: 2s}
  - {kill: random, at: {between: [10s, 60s]}}
  - {clock_step: edge-2, by: 50ms, at: 10s}
  - {clock_drift: edge-1, by: -100ppm, at: 0s, for: 30s}
  - {slow_host: random, factor: 3, at: 20s, for: 10s}
  - {late_link: {src: random, dst: random}, delay: 40ms, at: 20s, for: 10s}
  - {lossy_link: [{src: edge-1, dst: cloud-1}], loss: 2%, at: 20s}
  - {late_data: random, delay: 200ms, at: 20s}
  - {late_step: edge-1, delay: 50ms, at: iteration 4}
  - {slow_link: {src: random, dst: random}, rate_factor: 0.3, at: 20s, for: 10s, repeat: {every: 20s, until: 2min}}
tcp: {congestion_control: cubic, slow_start_after_idle: false}
"""
ORIGINALS = {
    **{name: (FIRST_LIGHT / name).read_bytes() for name in ("layers_services.yaml", "network.yaml")},
    "workflow.yaml": b"- hosts: edge.*:fog.*:cloud.*\n  depends_on:\n  - {service_selector: fog.*, prefix: a, "
    b"grouping: asarray}\n  prepare:\n  - ansible.builtin.command: {cmd: 'true'}\n  launch: []\n",
    "workflow_env.yaml": b"small: {size: 1, name: a}\n",
    "emulation.yaml": EMULATION,
}
TRACES = {"lte.csv": b"time_s,rate_bps\n0,1e6\n0.5,2e6\n1,0\n", "lte.down": b"3\n3\n40\n120\n"}
VALUES = {name: yaml.safe_load(raw) for name, raw in ORIGINALS.items()}

JUNK = st.one_of(
    st.sampled_from(
        [
            None, True, False, 0, -1, 10**30, 10**4000, 0.0, -0.5, math.nan, math.inf, 1e308, "", " ", "random", "edge",
            "edge.*", "*", "all:!edge.*", "!", "&", ":", "~(", "[", "]", "10mbps", "1e-3", "\n", "\x07", "é\u2028", [],
            [[]], {}, {"": None}, {None: 1}, {1: 2}, {True: {}}, b"\x00\xff", dt.date(2020, 1, 1),
            "0s", "1e400s", "9" * 400 + "s", "-1ms", "iteration 1", "iteration 99999999999", "1000 bdp", "0 frames",
            "1kbit", "0%", "100%", "1ppm", "168h", "traces/lte.csv", "../x", "traces/..", {"steps": {"0s": "1mbit"}},
            {"ramp": {"0s": 1, "1s": 2}, "period": "2s"}, {"trace": "traces/nothing"}, {"between": ["1s", "2s"]},
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
    (path / "traces").mkdir()
    for name, raw in TRACES.items():
        (path / "traces" / name).write_bytes(raw)
    return path


def test_the_scenario_that_is_mutated_is_sound(folder):
    assert problems(folder, SERVICES, strategies=STRATEGIES, used_links=ring) == ()


# The folder is shared by all examples: each puts back what it changed.
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
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
        check_message(error)


def check_message(error):
    message = str(error)
    assert message.splitlines() == [message]
    assert message.isprintable()
    assert error.file in message
    assert error.problem.strip()
    assert error.remedy.strip()
    assert not error.key or error.line is not None
    assert len(message) < 1000


LINES = st.one_of(
    st.sampled_from(
        [b"time_s,rate_bps", b"0,1e6", b"1,2e6", b"1,nan", b"2,-1", b"1e300,1", b"3", b"4", b"-1", b'"', b""]
    ),
    st.integers(0, 10**12).map(lambda number: str(number).encode()),
    st.binary(max_size=8),
)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(TRACES)), lines=st.lists(LINES, max_size=6))
def test_a_damaged_trace_is_played_or_refused_in_one_line(folder, name, lines):
    (folder / "traces" / name).write_bytes(b"\n".join(lines))
    try:
        errors = problems(folder, SERVICES, strategies=STRATEGIES, used_links=ring)
    finally:
        (folder / "traces" / name).write_bytes(TRACES[name])
    for error in errors:
        check_message(error)


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
