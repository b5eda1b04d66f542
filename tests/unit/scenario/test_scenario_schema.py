"""The JSON Schema of emulation.yaml: what the reader accepts, an editor that checks by the schema accepts as well."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_scenario import SERVICES, STRATEGIES, writer

from e2c_dl.resources import template_dir
from e2c_dl.scenario.emulation.file import schema
from e2c_dl.scenario.folder.copies import init
from e2c_dl.scenario.load import problems

jsonschema = pytest.importorskip("jsonschema")

REPOSITORY = Path(__file__).parents[3]
SCHEMA = schema()
# The schema keeps to what the drafts have in common: E2Clab brings a jsonschema that ends with draft 7.
VALIDATOR = getattr(jsonschema, "Draft202012Validator", jsonschema.Draft7Validator)(SCHEMA)


def uncommented(text: str) -> str:
    """The template with its sections in use that are commented out."""
    lines = (line.removeprefix("# ") for line in text.splitlines())
    return "\n".join(line for line in lines if line[:1] in " -" or line.partition("#")[0].rstrip().endswith(":"))


def allows(text: str) -> bool:
    return VALIDATOR.is_valid(yaml.safe_load(text))


def reads(folder: Path, text: str) -> bool:
    """Whether the reader accepts it."""
    path = writer(folder)(emulation=text, network="networks: [{src: '*', dst: '*', delay: 10ms, rate: 10mbit}]")
    (path / "traces").mkdir(exist_ok=True)
    (path / "traces" / "lte.csv").write_text("time_s,rate_bps\n0,1e6\n1,2e6\n")
    return not problems(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: [(0, 1), (1, 2), (2, 0)])


def test_the_schema_is_one():
    VALIDATOR.check_schema(SCHEMA)


def properties(value):
    """(key, schema) of every key that any mapping of it may have."""
    if isinstance(value, dict):
        yield from value.get("properties", {}).items()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from properties(inner)


def test_an_editor_has_something_to_say_of_every_key():
    said = list(properties(SCHEMA))
    assert len(said) > 100
    assert [key for key, of in said if "description" not in of] == []


def test_what_init_writes_is_what_the_reader_says(tmp_path):
    init(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "emulation.schema.json").read_text()) == SCHEMA


@pytest.mark.parametrize(
    "file", sorted(REPOSITORY.glob("experiments/*/emulation.yaml")), ids=lambda file: file.parent.name
)
def test_every_experiment_keeps_to_it(file):
    VALIDATOR.validate(yaml.safe_load(file.read_text()))


def test_the_template_names_it_and_keeps_to_it_with_everything_in_use(tmp_path):
    text = (template_dir() / "emulation.yaml").read_text()
    assert text.splitlines()[0] == "# yaml-language-server: $schema=emulation.schema.json"
    assert "emulation.schema.json" in {file.name for file in init(tmp_path / "new")}
    value = yaml.safe_load(uncommented(text))
    assert set(value) == set(SCHEMA["properties"])
    VALIDATOR.validate(value)
    (tmp_path / "new" / "emulation.yaml").write_text(yaml.safe_dump(value))
    (tmp_path / "new" / "traces").mkdir()
    (tmp_path / "new" / "traces" / "lte.csv").write_text("time_s,rate_bps\n0,1e6\n1,2e6\n")
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    known = {"strategies": frozenset({"allreduce"}), "used_links": lambda *_: ring}
    assert problems(tmp_path / "new", frozenset({"Trainer"}), **known) == ()


def test_every_example_of_the_documentation_holds_in_the_template(tmp_path):
    blocks = re.findall(r"```yaml\n(.*?)```", (REPOSITORY / "docs" / "emulation.md").read_text(), re.DOTALL)
    text = "".join(blocks)
    assert set(yaml.safe_load(text)) == set(SCHEMA["properties"])
    assert allows(text)
    init(tmp_path / "new")
    (tmp_path / "new" / "emulation.yaml").write_text(text)
    (tmp_path / "new" / "traces").mkdir()
    (tmp_path / "new" / "traces" / "lte.csv").write_text("time_s,rate_bps\n0,1e6\n1,2e6\n")
    (tmp_path / "new" / "traces" / "lte.down").write_text("1\n500\n")
    known = {"strategies": frozenset({"allreduce"}), "used_links": lambda *_: [(0, 1), (1, 2), (2, 3), (3, 0)]}
    assert problems(tmp_path / "new", frozenset({"Trainer"}), **known) == ()


@pytest.mark.parametrize(
    "text",
    [
        "compute: {cors: 1}", "compute: {method: qouta}", "compute: {factors: {edge.*: 0.5}}",
        "links: [{src: edge.*, dst: cloud.*, jitter: 5}]", "links: [{src: edge.*, jitter: 5ms}]",
        "links: [{src: edge.*, dst: cloud.*, queue: 3 bpd}]", "links: [{src: a, dst: b, burst: {good_to_bad: 1%}}]",
        "bottlenecks: [{name: A, rate: 1mbit, links: [{src: edge.*, dst: cloud.*}]}]",
        "bottlenecks: [{name: a, rate: 1mbps, links: [{src: edge.*, dst: cloud.*}]}]",
        "schedules: {links: [{src: edge.*, dst: cloud.*, rate: 5mbit}]}",
        "schedules: {links: [{src: edge.*, dst: cloud.*, rate: {steps: {0: 5mbit}}}]}",
        "schedules: {links: [{src: edge.*, dst: cloud.*, rate: {trace: ../a.csv}}]}",
        "schedules: {compute: [{host: edge.*, factor: {steps: {0s: 1}}, cores: {steps: {0s: 1}}}]}",
        "schedules: {thermal: [{host: edge.*, tau: 20}]}", "injected: {}",
        "injected: {seed: 1, faults: [{kill: edge-1, at: 5}]}",
        "injected: {seed: 1, faults: [{kill: edge-1, at: 5s, for: 1s}]}",
        "injected: {seed: 1, faults: [{pause: edge-1, at: 5s}]}", "tcp: {congestion_control: 'a b'}", "[]",
    ],
)  # fmt: skip
def test_it_finds_much_of_what_the_reader_finds(tmp_path, text):
    assert not allows(text)
    assert not reads(tmp_path, text)


def mostly(good, bad):
    """One of ``good``, now and then one of ``bad``."""
    return st.integers(0, 24).flatmap(lambda number: st.sampled_from(bad if number == 0 else good))


def some(required=None, **optional):
    """A mapping with the required keys, and some of the others."""
    return st.fixed_dictionaries(required or {}, optional=optional)


RATE = mostly(["1mbit", " 5Mbit ", "1.5gbit", ".5mbit", "2MBIT", "7.mbit"], ["300 kbit", "9mbps", "8", 8])
DELAY = mostly(["1ms", "200us", "0.005s", "2MS", " 9ms"], ["70s", "1 ms", 3, "1min", "0ms"])
LOSS = mostly(["1%", "0.5%", " 2% ", ".1%"], ["0%", "0.5 %", "100%", 0.1, "1"])
TIME = mostly(["5s", "1min", "0.1h", "10s ", "20S", "500ms", "30.5s"], ["9", "200h", 0, "0s"])
HOST = mostly(["edge-1", "edge.*", "cloud-1"], ["random", "edge", 3, "*"])
PLACE = mostly(["edge-1", "edge.*", "cloud-1", "random"], ["edge", 3])
QUEUE = mostly(["64KiB", "200 frames", "1 frame", "2 bdp", " 1.5  bdp", "9000B"], ["2bdp", "1B", "1 MiB", "64kib"])
FACTOR = mostly([1, 2, 1.5, 999], [0.5, "2", None])
SHARE = mostly([0.5, 0.25], [0, 1, "1%"])
BOTH = mostly([True, False], ["yes"])
ENDS = {"src": mostly(["edge-1", "edge.*"], ["random"]), "dst": mostly(["cloud.*", "cloud-1"], ["x"])}
LINKS = some(ENDS, symmetric=BOTH)
PLACES = st.one_of(LINKS, st.just({"src": "random", "dst": "random"}), some(symmetric=BOTH))


def schedule(value, trace=False):
    points = st.tuples(value, st.dictionaries(TIME, value, min_size=1, max_size=1))
    points = points.map(lambda drawn: {"0s": drawn[0], **drawn[1]})
    forms = [some({form: points}, period=mostly(["2h", "24h"], ["1s"])) for form in ("steps", "ramp")]
    if trace:
        names = mostly(["traces/lte.csv"], ["lte.csv"])
        forms.append(some({"trace": names}, window=TIME))
    return st.one_of(*forms)


AT = st.one_of(TIME, mostly(["iteration 3"], ["iteration 500"]), st.just({"between": ["1s", "9s"]}), some(between=TIME))
SIDES = mostly([[["edge.*"], ["cloud.*"]], [["edge-1"], ["cloud-1", "cloud-2"], ["edge-2"]]], [[], [["edge.*"]]])
LASTING = {"for": TIME, "repeat": some({"every": TIME, "until": mostly(["1h"], ["1s", 5])})}
FAULTS = [
    some({"cut": st.one_of(PLACES, st.lists(PLACES, max_size=2)), "at": AT}, **LASTING),
    some({"partition": SIDES, "at": AT}, **LASTING),
    some({"slow_link": PLACES, "rate_factor": SHARE, "at": AT}, **LASTING),
    some({"late_link": PLACES, "delay": DELAY, "at": AT}, **LASTING),
    some({"lossy_link": st.lists(PLACES, max_size=2), "loss": LOSS, "at": AT}, **LASTING),
    some({"late_data": PLACE, "delay": DELAY, "at": AT}, **LASTING),
    some({"late_step": PLACE, "delay": DELAY, "at": AT}, **LASTING),
    some({"slow_host": PLACE, "factor": mostly([2, 1.5], [1]), "at": AT}, **LASTING),
    some({"pause": PLACE, "at": AT, "for": TIME}, repeat=LASTING["repeat"]),
    some({"kill": PLACE, "at": AT}),
    some({"clock_step": PLACE, "by": mostly(["5ms", "-5ms", " -1s"], ["0s", "5ppm"]), "at": AT}),
    some({"clock_drift": PLACE, "by": mostly(["5ppm", "-5PPM"], ["5ms"]), "at": AT}, **LASTING),
]
QUALITY = some(
    ENDS,
    symmetric=BOTH,
    jitter=DELAY,
    reorder=LOSS,
    queue=QUEUE,
    burst=some({"good_to_bad": LOSS, "bad_to_good": LOSS}, loss_in_bad=LOSS, loss_in_good=LOSS),
)
DISTRIBUTED = some({**ENDS, "jitter": DELAY, "distribution": mostly(["normal", "uniform", "pareto"], ["gauss"])})
DEVICE = some(
    {"host": HOST}, tau=TIME, limit=mostly([60, 80.5], [10]), factor=mostly([2], [1]), rise=mostly([90], [10])
)
SECTIONS = {
    "compute": some(
        method=mostly(["auto", "sleep"], ["x"]), cores=mostly([0.5, None], ["1"]), factors=st.dictionaries(HOST, FACTOR)
    ),
    "links": st.lists(st.one_of(QUALITY, DISTRIBUTED), min_size=1, max_size=2),
    "bottlenecks": st.lists(
        some(
            {"name": mostly(["up"], ["Up"]), "rate": RATE, "links": st.lists(LINKS, min_size=1, max_size=2)},
            queue=QUEUE,
        ),
        max_size=1,
    ),
    "schedules": some(
        links=st.lists(some(ENDS, rate=schedule(RATE, True), delay=schedule(DELAY), loss=schedule(LOSS)), max_size=1),
        bottlenecks=st.lists(some({"name": mostly(["up"], ["down"]), "rate": schedule(RATE, True)}), max_size=1),
        compute=st.lists(
            st.one_of(some({"host": HOST, "factor": schedule(FACTOR)}), some({"host": HOST, "cores": schedule(SHARE)})),
            max_size=1,
        ),
        thermal=st.lists(DEVICE, max_size=1),
    ),
    "injected": some(
        {"seed": mostly([1], [1.0, True, -1])},
        faults=st.lists(st.one_of(FAULTS), max_size=2),
        compute=st.lists(some({"host": PLACE, "factor": FACTOR}), max_size=1),
        links=st.lists(some({**ENDS, "rate_factor": SHARE}), max_size=1),
    ),
    "tcp": some(congestion_control=mostly(["cubic"], ["a b"]), slow_start_after_idle=BOTH),
}
UPLINK = {"name": "up", "rate": "9mbit", "links": [{"src": "edge.*", "dst": "cloud.*"}]}
BESIDE = {"schedules": {"bottlenecks": [UPLINK], "compute": {"cores": 0.5}}}  # what schedules refer to
FILES = st.sampled_from(sorted(SECTIONS)).flatmap(
    lambda name: SECTIONS[name].map(lambda value: {**BESIDE.get(name, {}), name: value})
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=FILES)
def test_what_the_reader_accepts_the_schema_accepts(tmp_path, value):
    text = yaml.safe_dump(value, sort_keys=False)
    if reads(tmp_path, text):
        assert allows(text), text
