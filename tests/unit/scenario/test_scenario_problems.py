"""What is wrong with E2Clab's two main files is said in one line that names file, line, key and remedy."""

import pytest
import yaml
from click.testing import CliRunner
from small_scenario import LAYERS, NETWORK, SERVICES, STRATEGIES, found, only, replaced, writer

from e2c_dl.cli.scenarios import check
from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.environment import environment_key
from e2c_dl.scenario.load import LAYERS_SERVICES, load


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


def test_the_base_has_no_problems(write):
    assert found(write()) == []


LAYERS_CASES = [
    ("name: Default", "name: Defautl", "layers[1].services[1].name: no service is called 'Defautl'", "'Default'"),
    ("name: Trainer, env", "name: trainer, env", "no service is called 'trainer'", "did you mean 'Trainer'?"),
    ("quantity: 2", "quantiy: 2", "layers_services.yaml:6: layers[0].services[0].quantiy: unknown key", "'quantity'"),
    ("quantity: 2", "quantity: 0", "quantity: 0 is out of range", "from 1 to 250"),
    ("quantity: 2", "quantity: true", "expected a whole number, not true", "from 1 to 250"),
    ("quantity: 2", "quantity: 2.0", "expected a whole number, not 2", "from 1 to 250"),
    ("quantity: 2", "quantity: 0x" + "f" * 6000, "a huge number is out of range", "from 1 to 250"),
    ("quantity: 2", "quantity: 200, repeat: 1", "layers: 402 hosts are asked for", "at most 250"),
    ("quantity: 2", "repeat: -1", "repeat: -1 is out of range", "from 0 to 249"),
    ("quantity: 2", "servers: [a, a]", "names no server, or one twice", "once"),
    ("quantity: 2", "servers: a", "expected a list, not 'a'", "'- '"),
    ("quantity: 2", "servers: [a, b, c], quantity: 2", "2 machines of 3 servers", "remove quantity"),
    ("quantity: 2", "servers: [a, b], cluster: c", "E2Clab ignores servers beside cluster", "remove one"),
    ("quantity: 2", "environment: iotlab", "environment: has no section iotlab", "add 'iotlab:' there"),
    ("quantity: 2", "environment: iotlb", "'iotlb' is not known", "did you mean 'iotlab'?"),
    ("name: edge", "name: Edge", "layers[0].name: 'Edge' cannot begin a host name", "write edge"),
    ("name: edge", "name: edge_1", "'edge_1' cannot begin a host name", "such as edge"),
    ("name: cloud", "name: edge", "layers[1].name: layer 'edge' is there already", "in the first one"),
    ("name: cloud", "nam: cloud", "layers[1].nam: unknown key", "did you mean 'name'?"),
    ("layers:", "layer:", "layer: unknown key", "did you mean 'layers'?"),
    ("cluster: paradoxe", "clutser: paradoxe", "environment.g5k.clutser: unknown key", "'cluster'"),
    ("cluster: paradoxe", "queue: default", "environment: no cluster", "add 'cluster:'"),
    ("cluster: paradoxe", "cluster: p, walltime: '24:00:00'", "'24:00:00' is no walltime", "less than 24 hours"),
    ("cluster: paradoxe", "cluster: p, walltime: 12:00:00", "43200 is a number", 'write "12:00:00", in quotes'),
    ("cluster: paradoxe", "cluster: p, env_name: debian11-big", "env_name needs a job of type deploy", "[deploy]"),
    ("cluster: paradoxe", "cluster: p, queue: besteffrot", "'besteffrot' is not known", "'besteffort'"),
    ("g5k: {cluster: paradoxe}", "cluster: paradoxe", "environment: key 'g5k' is missing", "g5k"),
    ("g5k: {cluster: paradoxe}", "g5k: {cluster: p}\n  name: g5k", "environment.name: unknown key", "'job_name'"),
    ("g5k: {cluster: paradoxe}", "iotlab: {clutser: saclay}", "environment.iotlab.clutser: unknown key", "'cluster'"),
    ("g5k: {cluster: paradoxe}", "scalewayinstances: {architecture: private}", "'private' is not known", "_network'"),
    ("environment:", "monitoring: {type: tig}\nenvironment:", "key 'provider' is missing", "add it"),
    ("environment:", "kwollect: {metrics: [a], end: launch}\nenvironment:", "end needs start", "add start"),
    ("environment:", "monitorng: {type: dstat}\nenvironment:", "monitorng: unknown key", "'monitoring'"),
    ("{strategy: allreduce}", "{strategy: alreduce}", "env.strategy: 'alreduce' is not known", "'allreduce'"),
    ("{strategy: allreduce}", "{}", "key 'strategy' is missing", "add it"),
    ("{strategy: allreduce}", "{strategy: allreduce, iteratons: 5}", "env.iteratons: unknown key", "'iterations'"),
    ("{strategy: allreduce}", "{strategy: allreduce, iterations: 0}", "iterations: 0 is out", "1 to 10000000"),
    ("{strategy: allreduce}", "{strategy: allreduce, momentum: 1}", "momentum: 1 is out", "less than 1"),
    ("{strategy: allreduce}", "{strategy: allreduce, learning_rate: .nan}", "nan is out of range", "above 0"),
    ("{strategy: allreduce}", "{strategy: allreduce, learning_rate: 1e-3}", "'1e-3' is text to YAML", "1.0e-3"),
    ("{strategy: allreduce}", "{strategy: allreduce, dtype: half}", "'half' is not known", "write one of float32"),
    ("{strategy: allreduce}", "{strategy: allreduce, bucket_bytes: 64KB}", "unknown unit", "KiB"),
    ("{strategy: allreduce}", "{strategy: allreduce, bucket_bytes: 2GiB}", "never full", "1GiB"),
    ("*t", "{strategy: gossip}", "layers_services.yaml:9: layers[1].services[0].env.strategy: strategy is gossip, but "
     "allreduce for the Trainer on line 6", "alias it"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says", "remedy"), LAYERS_CASES)
def test_layers_services(write, old, new, says, remedy):
    error = only(write(layers=replaced(LAYERS, old, new)))
    assert error.startswith("layers_services.yaml:")
    assert says in error
    assert remedy in error.rpartition("; ")[2]


ELSEWHERE = [
    "iotlab: {cluster: saclay, walltime: '02:00:00'}",
    "chameleoncloud: {rc_file: a.rc, key_name: k, image: CC-Ubuntu20.04, cluster: gpu_rtx_6000}",
    "chameleonedge: {rc_file: a.rc, image: ubuntu, cluster: jetson-nano}",
    "scalewayinstances: {profile: p, zone: fr-par-1, commercial_type: DEV1-M, ports_to_open: [[80, 80, web, tcp]]}",
]


@pytest.mark.parametrize("section", ELSEWHERE)
@pytest.mark.parametrize("beside", ["", "g5k: {cluster: paradoxe}\n  "])
def test_other_environments_are_valid_and_it_is_said_what_applies(write, section, beside):
    """Alone, and beside Grid'5000 with a service of their own; E2Clab takes them, too."""
    name = section.partition(":")[0]
    layers = replaced(LAYERS, "g5k: {cluster: paradoxe}", beside + section)
    path = write(layers=layers.replace("{name: Default}", f"{{name: Default, environment: {name}}}"))
    assert found(path) == []
    (remark,) = load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: []).remarks
    assert f"environment.{name}: e2c-dl deploy does not reserve there" in remark and "e2clab deploy does" in remark
    is_valid_conf = pytest.importorskip("e2clab.schemas").is_valid_conf
    assert is_valid_conf(yaml.safe_load((path / "layers_services.yaml").read_text()), "layers_services")


def test_hosts_here_stand_in_for_one_environment(write):
    alone = write(layers=replaced(LAYERS, "g5k: {cluster: paradoxe}", "iotlab: {cluster: saclay}"))
    assert environment_key(read(alone / LAYERS_SERVICES)) == "iotlab"
    two = write(layers=replaced(LAYERS, "g5k: {cluster: paradoxe}", "g5k: {cluster: p}\n  iotlab: {}"))
    assert found(two) == []  # E2Clab reserves in both
    with pytest.raises(ScenarioError, match="g5k and iotlab: hosts here can stand in for those of one environment"):
        environment_key(read(two / LAYERS_SERVICES))


def test_a_single_rank_is_too_few(write):
    layers = replaced(replaced(LAYERS, "  - {name: Trainer, env: *t}\n", ""), "quantity: 2", "quantity: 1")
    assert "layers: 1 host of service Trainer" in only(write(layers=layers))


def test_an_alias_of_a_whole_service_is_refused(write):
    layers = replaced(LAYERS, "- {name: Trainer, env: *t}", "- &s {name: Trainer, env: *t}\n  - *s")
    assert "E2Clab gives one and the same number" in only(write(layers=layers))


def test_other_services_may_hold_metadata_of_any_name(write):
    layers = replaced(LAYERS, "{name: Default}", "{name: Flower, docker: true, image: 'x', env: {FLAG: 1}}")
    assert found(write(layers=layers)) == []


NETWORK_CASES = [
    ("10mbit", "10mbps", "network.yaml:2: networks[0].rate: '10mbps' means bytes per second to tc", "write 10mbit"),
    ("10mbit", "10", "networks[0].rate: 10 has no unit", "write e.g. 10mbit"),
    ("10mbit", "0mbit", "'0mbit' is out of range", "from 1kbit to 100gbit"),
    ("10ms", "60s", "'60s' is out of range", "below 60s"),
    ("10ms", "10ms 2ms 25%", "networks[0].delay: '10ms 2ms 25%' is not emulated", "'10ms 2ms distribution normal'"),
    ("10ms", "10ms 2ms distribution paretonormal", "a delay, its jitter and one distribution are", "pareto"),
    ("10ms", "10", "networks[0].delay: 10 has no unit", "10ms"),
    ("10ms", "10ms 2 distribution normal", "networks[0].delay: '2' has no unit", "10ms"),
    ("10ms", "10ms 20ms", "uniform jitter of 20ms around a delay of 10ms would be cut off", "at most 10ms"),
    ("10ms", "0ms 2ms distribution normal", "jitter of 2ms on a link without delay", "give it a delay"),
    ("10mbit", "10mbit, loss: 100%", "networks[0].loss: '100%' is out of range", "below 100%"),
    ("10mbit", "10mbit, symetric: true", "networks[0].symetric: unknown key", "'symmetric'"),
    ("10mbit", "10mbit, symmetric: 'yes'", "expected true or false", "write true or false"),
    (", rate: 10mbit", "", "networks[0]: key 'rate' is missing", "add it"),
    ("src: edge.*", "src: egde.*", "networks[0].src: 'egde.*' matches no host", "did you mean edge.*?"),
    ("src: edge.*", "src: edge", "networks[0].src: 'edge' selects one single host in E2Clab", "write edge.*"),
    ("src: edge.*", "src: trainer", "'trainer' selects one single host", "write *.trainer.*"),
    ("src: edge.*", "src: edg*", "also matches bare layers", "edge.*"),
    ("src: edge.*", "src: 'edge.*:fgo.*'", "'fgo.*' matches no host", "write e.g. cloud.*"),
    ("src: edge.*", "src: 'all:!edge.*'", "by their bare layer", "*.*:!edge.*"),
    ("src: edge.*", "src: 'edge.*:!edge.*'", "'edge.*:!edge.*' matches no host", "write e.g."),
    ("src: edge.*", "src: 'edge.*[0]'", "brackets are not supported", "use *"),
    ("src: edge.*, dst: cloud.*", "src: cloud.trainer.1.1, dst: cloud.trainer.*", "one and the same host", "two"),
    ("networks:", "network:", "network: unknown key", "did you mean 'networks'?"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says", "remedy"), NETWORK_CASES)
def test_network(write, old, new, says, remedy):
    errors = found(write(network=replaced(NETWORK, old, new)))
    assert all(error.startswith("network.yaml:") for error in errors)
    assert says in errors[0]
    assert remedy in errors[0].rpartition("; ")[2]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((replaced(LAYERS, case[0], case[1]), "layers_services") for case in LAYERS_CASES),
        *((replaced(NETWORK, case[0], case[1]), "network") for case in NETWORK_CASES),
        (replaced(LAYERS, "quantity: 2", "quantity: 2, roles: [monitoring]"), "layers_services"),
        (replaced(LAYERS, "g5k: {", "job_name: a\n  walltime: '23:59:59'\n  g5k: {ipv6: true, "), "layers_services"),
        ("networks:", "network"),
    ],
)
def test_what_e2clab_refuses_is_refused(write, text, name):
    is_valid_conf = pytest.importorskip("e2clab.schemas").is_valid_conf
    key = {"layers_services": "layers"}.get(name, name)
    assert is_valid_conf(yaml.safe_load(text), name) or found(write(**{key: text}))


def test_a_rule_within_a_pattern_of_one_host_is_a_remark(write):
    """E2Clab's normal way to write a scenario whose quantities vary."""
    rules = "- {src: cloud.*, dst: cloud.*, delay: 1ms, rate: 1gbit}\n"
    one = replaced(LAYERS, "  - {name: Default}\n", "")
    path = write(layers=one, network=NETWORK + rules)
    assert found(path) == []
    loaded = load(path, SERVICES, strategies=STRATEGIES)
    assert loaded.remarks == (
        "network.yaml:3: networks[1]: holds for no link: cloud.* and cloud.* are cloud-1 alone; "
        "leave it if quantities vary, or remove it",
    )
    assert ("cloud-1", "cloud-1") not in loaded.topology.links
    two = load(write(network=NETWORK + rules), SERVICES, strategies=STRATEGIES)
    assert two.remarks == ()
    assert ("cloud-1", "cloud-2") in two.topology.links


@pytest.mark.parametrize(
    "emulation",
    [
        "links: [{src: cloud.*, dst: cloud.*, jitter: 1ms}]",
        "schedules: {links: [{src: cloud.*, dst: cloud.*, rate: {steps: {0s: 1mbit}}}]}",
        "bottlenecks: [{name: a, rate: 1mbit, links: [{src: cloud.*, dst: cloud.*}, {src: edge.*, dst: cloud.*}]}]",
    ],
)
def test_so_is_an_entry_of_emulation_yaml(write, emulation):
    path = write(layers=replaced(LAYERS, "  - {name: Default}\n", ""), emulation=emulation)
    assert found(path) == []
    (remark,) = load(path, SERVICES, strategies=STRATEGIES).remarks
    assert remark.startswith("emulation.yaml:1: ") and "holds for no link: cloud.* and cloud.*" in remark


def test_a_remark_is_told_by_check_which_succeeds(write):
    path = write(
        layers=replaced(LAYERS, "  - {name: Default}\n", ""),
        network=NETWORK + "- {src: cloud.*, dst: cloud.*, delay: 1ms, rate: 1gbit}\n",
    )
    checked = CliRunner().invoke(check, [str(path)])
    assert checked.exit_code == 0
    remark, valid, *_ = checked.stdout.splitlines()
    assert remark.startswith("remark: network.yaml:3: networks[1]: holds for no link")
    assert ": valid; 3 hosts in edge, cloud; 2 links" in valid


def test_what_is_shared_by_no_link_is_an_error(write):
    lonely = "bottlenecks: [{name: a, rate: 1mbit, links: [{src: cloud.*, dst: cloud.*}]}]"
    assert "names no link" in only(write(layers=replaced(LAYERS, "  - {name: Default}\n", ""), emulation=lonely))
