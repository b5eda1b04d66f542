"""What emulation.yaml says of links and of what they share, and what network.yaml's delay may carry."""

import pytest
from small_scenario import NETWORK, SERVICES, STRATEGIES, found, replaced, writer

from e2c_dl.scenario.load import load
from e2c_dl.topology import Bottleneck, BurstLoss, Discipline, Distribution, Link

UP = [("edge-1", "cloud-1"), ("edge-1", "cloud-2"), ("edge-2", "cloud-1"), ("edge-2", "cloud-2")]
BDP = 2 * 10_000_000 * 0.02 / 8


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


def topology(path):
    return load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: []).topology


def links(write, text, **files):
    return topology(write(emulation=f"links:\n{text}", **files)).links


def test_the_delay_of_network_yaml_may_carry_jitter_as_tc_spells_it(write):
    plain = topology(write(network=replaced(NETWORK, "10ms", "10ms 2ms"))).link("edge-1", "cloud-1")
    assert plain == Link(rate_bps=1e7, delay_s=0.01, jitter_s=0.002)
    normal = topology(write(network=replaced(NETWORK, "10ms", "10ms 20ms distribution normal"))).link(*UP[0])
    assert (normal.jitter_s, normal.distribution) == (0.02, Distribution.NORMAL)


def test_links_are_refined_key_by_key_and_the_last_entry_holds(write):
    came = links(
        write,
        "- {src: edge.*, dst: cloud.*, jitter: 5ms, distribution: normal, reorder: 1%}\n"
        "- {src: edge-1, dst: cloud-1, jitter: 2ms, queue: 64KiB}\n"
        "- {src: edge-2, dst: cloud.*, queue: 200 frames, burst: {good_to_bad: 1%, bad_to_good: 30%}}\n"
        "- {src: edge-2, dst: cloud-2, queue: 2 bdp}\n",
    )
    normal = {"rate_bps": 1e7, "delay_s": 0.01, "distribution": Distribution.NORMAL, "reorder": 0.01}
    assert came["edge-1", "cloud-1"] == Link(jitter_s=0.002, queue_bytes=65536, **normal)
    assert came["edge-1", "cloud-2"] == Link(jitter_s=0.005, **normal)
    burst = BurstLoss(good_to_bad=0.01, bad_to_good=0.3)
    assert came["edge-2", "cloud-1"] == Link(jitter_s=0.005, queue_bytes=200 * 1514, burst=burst, **normal)
    assert came["edge-2", "cloud-2"].queue_bytes == BDP
    assert set(came) == set(UP)


def test_symmetric_entries_hold_both_ways(write):
    network = replaced(NETWORK, "rate: 10mbit", "rate: 10mbit, symmetric: true")
    came = links(write, "- {src: edge-1, dst: cloud-1, symmetric: true, jitter: 1ms}\n", network=network)
    assert {pair for pair, link in came.items() if link.jitter_s} == {("edge-1", "cloud-1"), ("cloud-1", "edge-1")}


LINKS_CASES = [
    ("jitter: 20ms", "links[0].jitter: edge-1 -> cloud-1: uniform jitter of 20ms around a delay of 10ms", "normal"),
    ("distribution: normal", "links[0].distribution: edge-1 -> cloud-1 has no jitter to distribute", "add jitter"),
    ("jitter: 1ms, distribution: gauss", "'gauss' is not known", "uniform, normal, pareto"),
    ("jitter: 1ms, distribution: noraml", "'noraml' is not known", "did you mean 'normal'?"),
    ("jitter: 5", "5 has no unit", "write e.g. 10ms"),
    ("reorder: 100%", "'100%' is out of range", "below 100%"),
    ("reorder: 1", "1 has no unit", "write e.g. 1%"),
    ("queue: 3 bpd", "'3 bpd' is no queue", "write e.g. 64KiB, 200 frames or 2 bdp"),
    ("queue: 100B", "'100B' is out of range", "1514B, one full frame"),
    ("queue: 0 bdp", "'0 bdp' is out of range", "above 0"),
    ("queue: 0 frames", "'0 frames' is out of range", "one full frame"),
    ("burst: {good_to_bad: 1%}", "links[0].burst: key 'bad_to_good' is missing", "add it"),
    ("burst: {good_to_bad: 1%, bad_to_good: 0%}", "burst.bad_to_good: 0% never ends a burst", "30%"),
    ("burst: {good_to_bad: 0%, bad_to_good: 1%}", "burst.good_to_bad: 0% never begins a burst", "remove burst"),
    ("burst: {good_to_bad: 101%, bad_to_good: 1%}", "'101%' is out of range", "at most 100%"),
    ("burst: {good_to_bad: 1%, bad_to_good: 1%, loss_in_good: 100%}", "loses every segment", "below 100%"),
    ("jiter: 1ms", "links[0].jiter: unknown key", "did you mean 'jitter'?"),
    ("symmetric: true", "links[0]: says nothing of its links", "jitter"),
    ("jitter: 1ms, symmetric: 1", "links[0].symmetric: expected true or false", "true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "says", "remedy"), LINKS_CASES)
def test_what_is_wrong_with_a_link_is_said_once(write, keys, says, remedy):
    (error,) = found(write(emulation=f"links:\n- {{src: edge.*, dst: cloud.*, {keys}}}\n"))
    assert error.startswith("emulation.yaml:2: links[0]")
    assert says in error
    assert remedy in error.rpartition("; ")[2]


@pytest.mark.parametrize(
    ("network", "keys", "says"),
    [
        ("10ms, loss: 1%", "burst: {good_to_bad: 1%, bad_to_good: 9%}", "already loses 1%, independently"),
        ("0ms", "reorder: 1%", "has no delay that a segment could skip"),
        ("0ms", "queue: 1 bdp", "has no delay, so its bdp is 0"),
        ("0ms", "jitter: 1ms, distribution: normal", "jitter of 1ms on a link without delay"),
    ],
)
def test_what_does_not_fit_network_yaml(write, network, keys, says):
    path = write(
        network=replaced(NETWORK, "10ms", network), emulation=f"links:\n- {{src: edge-1, dst: cloud-1, {keys}}}\n"
    )
    (error,) = found(path)
    assert f"edge-1 -> cloud-1{':' * says.startswith('jitter')} {says}" in error


def test_a_queue_needs_a_rate_and_ends_need_hosts(write):
    assert (
        "has no rate, so nothing queues"
        in found(write(emulation="links: [{src: cloud-1, dst: edge-1, queue: 9KiB}]"))[0]
    )
    assert "'edg.*' matches no host" in found(write(emulation="links: [{src: edg.*, dst: edge-1, jitter: 1ms}]"))[0]
    assert "nothing is drawn here" in found(write(emulation="links: [{src: random, dst: edge-1, jitter: 1ms}]"))[0]


def test_bottlenecks_are_read_in_order_with_their_links(write):
    path = write(
        emulation="bottlenecks:\n"
        "- {name: up, rate: 20mbit, queue: 2 bdp, links: [{src: edge-1, dst: cloud.*}, {src: edge-1, dst: cloud-1}]}\n"
        "- {name: lab, rate: 5mbit, discipline: fair, links: [{src: edge-2, dst: edge-1, symmetric: true}]}\n"
    )
    came = topology(path)
    assert came.bottlenecks == (
        Bottleneck(name="up", rate_bps=2e7, links=tuple(UP[:2]), queue_bytes=int(2 * BDP)),
        Bottleneck(
            name="lab", rate_bps=5e6, links=(("edge-1", "edge-2"), ("edge-2", "edge-1")), discipline=Discipline.FAIR
        ),
    )
    assert set(came.links) == set(UP)


def test_the_emulator_is_asked_for_all_links_that_pass_a_bottleneck(write):
    path = write(emulation="bottlenecks: [{name: a, rate: 5mbit, links: [{src: edge-2, dst: edge-1}]}]")
    scenario = load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: [])
    assert ("edge-2", "edge-1") not in scenario.topology.links
    assert scenario.emulated_topology().links["edge-2", "edge-1"] == Link()


BOTTLENECK_CASES = [
    ("{name: a, rate: 1mbit, discipline: fiar, links: [{src: edge-1, dst: cloud-1}]}", "did you mean 'fair'?"),
    ("{name: a, links: [{src: edge-1, dst: cloud-1}]}", "bottlenecks[0]: key 'rate' is missing"),
    ("{name: a, rate: 1mbit}", "bottlenecks[0]: key 'links' is missing"),
    ("{name: a, rate: 1mbit, links: []}", "bottlenecks[0].links: names no link"),
    ("{name: A, rate: 1mbit, links: [{src: edge-1, dst: cloud-1}]}", "name: 'A' is no name"),
    ("{name: a, rate: 1mbit, links: [{src: fog.*, dst: cloud-1}]}", "'fog.*' matches no host"),
    ("{name: a, rate: 1mbps, links: [{src: edge-1, dst: cloud-1}]}", "means bytes per second to tc"),
    ("{name: a, rate: 1mbit, queue: 2 bdp, links: [{src: cloud-1, dst: edge-1}]}", "its links have no delay"),
    ("{name: a, rate: 1mbit, links: [{src: edge-1, dst: edge-1}]}", "one and the same host"),
    ("{name: a, rate: 1mbit, links: [{src: edge-1, dst: cloud-1, jitter: 1ms}]}", "links[0].jitter: unknown key"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "says"), BOTTLENECK_CASES)
def test_what_is_wrong_with_a_bottleneck(write, entry, says):
    (error,) = found(write(emulation=f"bottlenecks:\n- {entry}\n"))
    assert error.startswith("emulation.yaml:2: bottlenecks[0]")
    assert says in error


def test_a_link_is_in_one_bottleneck_and_a_name_belongs_to_one(write):
    one = "{name: a, rate: 1mbit, links: [{src: edge.*, dst: cloud-1}]}"
    two = "{name: b, rate: 1mbit, links: [{src: edge-2, dst: cloud.*}]}"
    (error,) = found(write(emulation=f"bottlenecks:\n- {one}\n- {two}\n"))
    assert error.startswith("emulation.yaml:3: bottlenecks[1].links[0]: edge-2 -> cloud-1 is in bottleneck a already")
    again = two.replace("name: b", "name: a").replace("edge-2", "edge-1").replace("cloud.*", "cloud-2")
    assert "'a' is the name of an earlier one" in found(write(emulation=f"bottlenecks: [{one}, {again}]"))[0]


def test_an_error_names_the_line_of_its_key_and_not_of_what_follows(write):
    text = "links:\n- src: edge.*\n  dst: cloud.*\n  jitter: 1ms\n  burst:\n    good_to_bad: 1%\n"
    assert found(write(emulation=text))[0].startswith("emulation.yaml:5: links[0].burst: key 'bad_to_good' is missing")
