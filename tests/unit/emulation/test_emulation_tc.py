"""tc commands as values, what tc says as values, and where the two differ; no root, no kernel."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from e2c_dl.emulation import tc
from e2c_dl.emulation.tc import device_state, on_host
from e2c_dl.emulation.tc.shared_class import End, end, ifb
from e2c_dl.errors import EmulationError, InputError
from e2c_dl.topology import Bottleneck, BurstLoss, Discipline, Distribution, Host, Link, Pair, Topology

ADDRESSES = {"a": "198.19.0.1", "b": "198.19.0.2", "c": "198.19.0.3"}
AB: Pair = ("a", "b")


def topology(links: dict[Pair, Link], *bottlenecks: Bottleneck) -> Topology:
    names = sorted({name for pair in links for name in pair} | {"a"})
    hosts = (Host(name=n, layer="edge", service="Trainer", service_id=n, role=n, rank=i) for i, n in enumerate(names))
    return Topology(hosts=tuple(hosts), links=links, bottlenecks=bottlenecks)


def shared(*links: Pair, queue_bytes: int | None = None) -> Bottleneck:
    return Bottleneck(name="campus", rate_bps=10e6, links=links, queue_bytes=queue_bytes)


def rendered(asked: Topology, host: str = "a", *, netem: bool = True) -> list[str]:
    return [" ".join(command) for command in tc.commands(asked, host, "eth1", ADDRESSES, netem=netem)]


def netem_of(link: Link) -> str:
    return next(line for line in rendered(topology({AB: link})) if "netem" in line).split(" netem ")[1]


def test_tc_renders_the_whole_interface_at_once_in_the_order_of_names() -> None:
    links = {
        ("a", "c"): Link(rate_bps=8e6),
        ("b", "a"): Link(rate_bps=1e6),
        AB: Link(rate_bps=100e6, delay_s=0.025, loss=0.015),
    }
    assert rendered(topology(links)) == [
        "tc qdisc replace dev eth1 root handle 2: pfifo",
        "tc qdisc del dev eth1 ingress",
        "ip link del dev ifb-eth1",
        "tc qdisc replace dev eth1 root handle 1: htb default 0",
        "tc class add dev eth1 parent 1: classid 1:2000 htb rate 1000bit quantum 1514",
        "tc qdisc add dev eth1 parent 1:2000 handle 2000: blackhole",
        "tc class add dev eth1 parent 1: classid 1:1 htb rate 100000000bit ceil 100000000bit "
        "burst 12500 cburst 12500 quantum 1514",
        "tc qdisc add dev eth1 parent 1:1 handle 11: netem limit 1207 delay 25000us loss random 1.5%",
        "tc filter add dev eth1 parent 1: protocol ip prio 1 handle 800::1 u32 match ip dst 198.19.0.2/32 flowid 1:1",
        "tc class add dev eth1 parent 1: classid 1:2 htb rate 8000000bit ceil 8000000bit "
        "burst 3028 cburst 3028 quantum 1514",
        "tc qdisc add dev eth1 parent 1:2 handle 12: netem limit 1000",
        "tc filter add dev eth1 parent 1: protocol ip prio 1 handle 800::2 u32 match ip dst 198.19.0.3/32 flowid 1:2",
        "ip link set dev eth1 gso_max_segs 1",
    ]


def test_numbers_of_classes_follow_the_names_of_their_destinations() -> None:
    """Whatever order a set of them has: it changes with the hash seed."""
    names = [f"h{number:02}" for number in range(20)]
    links = {("a", name): Link(rate_bps=1e6) for name in reversed(names)}
    addresses = {name: f"198.19.1.{number}" for number, name in enumerate(names)}
    lines = [" ".join(command) for command in tc.commands(topology(links), "a", "eth1", addresses)]
    reached = [line.split()[line.split().index("dst") + 1] for line in lines if " dst " in line]
    assert reached == [f"198.19.1.{number}/32" for number in range(20)]


def test_tc_without_netem_sets_rates_and_queues_in_bytes_and_larger_frames() -> None:
    lines = rendered(topology({AB: Link(rate_bps=8e6, delay_s=0.01, queue_bytes=30000)}), netem=False)
    assert "tc qdisc add dev eth1 parent 1:1 handle 11: bfifo limit 30000" in lines
    assert lines[-1] == "ip link set dev eth1 gso_max_segs 3"
    assert rendered(topology({AB: Link()}), netem=True)[-1].endswith("gso_max_segs 65535")


def test_tc_says_each_property_in_netems_words() -> None:
    base = Link(rate_bps=1514 * 8 * 100, delay_s=0.05, jitter_s=0.01)
    assert netem_of(base) == "limit 1009 delay 50000us 10000us"
    assert netem_of(replace(base, distribution=Distribution.NORMAL)).endswith("10000us distribution normal")
    assert netem_of(replace(base, distribution=Distribution.PARETO)).endswith("8660us distribution pareto")
    assert netem_of(replace(base, jitter_s=0, reorder=0.25)).endswith("delay 50000us reorder 25%")
    burst = BurstLoss(good_to_bad=0.01, bad_to_good=0.3, loss_in_good=0.001)
    assert netem_of(Link(burst=burst)).endswith("loss gemodel 1% 30% 100% 0.1%")


def test_tc_sizes_queues_by_what_is_asked_and_what_is_under_way() -> None:
    full = 1514 * 8
    assert netem_of(Link(rate_bps=full * 10000, delay_s=0.1)).startswith("limit 5000 ")  # 2 round trips, and one way
    assert netem_of(Link(rate_bps=full * 100, delay_s=0.1, queue_bytes=1514 * 20)).startswith("limit 30 ")
    assert int(netem_of(Link(delay_s=0.1)).split()[1]) > 100_000


def test_tc_leads_what_is_cut_into_a_blackhole() -> None:
    assert any(line.endswith("198.19.0.2/32 flowid 1:2000") for line in rendered(topology({AB: Link(down=True)})))


def test_tc_needs_netem_for_everything_but_rates() -> None:
    assert not tc.needs_netem(topology({AB: Link(rate_bps=1e6, down=True)}))
    burst = BurstLoss(good_to_bad=0.1, bad_to_good=0.5)
    for link in (Link(delay_s=0.001), Link(loss=0.1), Link(jitter_s=0.1), Link(burst=burst), Link(reorder=0.1)):
        assert tc.needs_netem(topology({AB: link}))
        assert len(tc.unsupported(topology({AB: link}), netem=False)) == 1
        assert tc.unsupported(topology({AB: link}), netem=True) == ()
    [said] = tc.unsupported(topology({AB: Link(loss=0.1), ("b", "a"): Link(loss=0.1)}), netem=False)
    assert said == "loss on a -> b and 1 more: tc needs netem for it, and the kernel has none"


def test_tc_serves_a_bottleneck_fairly_only_where_links_leave() -> None:
    def said(*links: Pair) -> tuple[str, ...]:
        fair = Bottleneck(name="campus", rate_bps=1e7, links=links, discipline=Discipline.FAIR)
        return tc.unsupported(replace(topology({}), bottlenecks=(fair,)), netem=True)

    assert said(AB, ("a", "c")) == ()  # HTB lends in turns
    [sentence] = said(AB, ("c", "b"))
    assert sentence.startswith("bottleneck campus: discipline fair where its links arrive")


def test_tc_class_ids_are_hexadecimal_and_a_host_without_links_is_only_cleared() -> None:
    links = {("a", f"h{i:02}"): Link(rate_bps=1e6) for i in range(12)}
    addresses = {f"h{i:02}": f"198.19.0.{i + 10}" for i in range(12)}
    lines = [" ".join(command) for command in tc.commands(topology(links), "a", "eth1", addresses)]
    assert any("198.19.0.21/32 flowid 1:c" in line for line in lines)
    assert tc.commands(topology(links), "h01", "eth1", addresses) == tc.clear("eth1")
    with pytest.raises(EmulationError, match="a -> h00: h00 has no data address"):
        tc.commands(topology(links), "a", "eth1", {})


def test_tc_puts_a_bottleneck_where_its_links_begin() -> None:
    pairs: tuple[Pair, ...] = (AB, ("a", "c"))
    lines = rendered(topology({AB: Link(rate_bps=4e6), ("b", "a"): Link()}, shared(*pairs, queue_bytes=15140)))
    assert any("parent 1: classid 1:1001 htb rate 10000000bit ceil 10000000bit" in line for line in lines)
    assert any("parent 1:1001 classid 1:1 htb rate 1000bit ceil 4000000bit" in line for line in lines)
    assert any("parent 1:1001 classid 1:2 htb rate 1000bit ceil 100000000000bit" in line for line in lines)
    assert sum(line.endswith("netem limit 10") for line in lines) == 2


def test_tc_puts_a_bottleneck_where_its_links_end() -> None:
    pairs: tuple[Pair, ...] = (AB, ("c", "b"))
    asked = topology({AB: Link(delay_s=0.01), ("c", "b"): Link()}, shared(*pairs, queue_bytes=30000))
    assert not any("1001" in line or "mirred" in line for line in rendered(asked, "a"))
    assert rendered(asked, "b")[3:] == [
        "ip link add name ifb-eth1 type ifb",
        "ip link set dev ifb-eth1 up",
        "tc qdisc replace dev ifb-eth1 root handle 1: htb default 0",
        "tc class add dev ifb-eth1 parent 1: classid 1:1 htb rate 10000000bit ceil 10000000bit "
        "burst 3028 cburst 3028 quantum 1514",
        "tc qdisc add dev ifb-eth1 parent 1:1 handle 11: bfifo limit 30000",
        "tc filter add dev ifb-eth1 parent 1: protocol ip prio 1 handle 800::1 u32 match ip src 198.19.0.1/32 "
        "flowid 1:1",
        "tc filter add dev ifb-eth1 parent 1: protocol ip prio 1 handle 800::2 u32 match ip src 198.19.0.3/32 "
        "flowid 1:1",
        "tc qdisc replace dev eth1 ingress",
        "tc filter add dev eth1 parent ffff: protocol ip prio 1 handle 800::1 u32 match ip src 198.19.0.1/32 "
        "action mirred egress redirect dev ifb-eth1",
        "tc filter add dev eth1 parent ffff: protocol ip prio 1 handle 800::2 u32 match ip src 198.19.0.3/32 "
        "action mirred egress redirect dev ifb-eth1",
    ]
    changed = tc.changes(asked, "b", "eth1", ADDRESSES, {}, {"campus": 5e6})
    assert [command[:9] for command in changed] == [
        ("tc", "class", "change", "dev", "ifb-eth1", "parent", "1:", "classid", "1:1")
    ]
    assert tc.changes(asked, "a", "eth1", ADDRESSES, {}, {"campus": 5e6}) == ()


def test_tc_says_which_bottlenecks_it_cannot_do() -> None:
    apart = topology({AB: Link(), ("c", "d"): Link()}, shared(AB, ("c", "d")))
    assert end(shared(AB, ("c", "d"))) is None
    assert end(shared(AB)) is End.SOURCE
    [said] = tc.unsupported(apart, netem=True)
    assert said.startswith("bottleneck campus: its links share neither source nor destination")
    with pytest.raises(EmulationError, match="campus share neither"):
        tc.commands(apart, "a", "eth1", ADDRESSES)
    assert len(ifb("enp0s31f6np0v12")) == 15


def test_tc_changes_in_place_whatever_was_there() -> None:
    asked = topology({AB: Link(rate_bps=8e6), ("a", "c"): Link()}, shared(AB, ("a", "c")))
    link = Link(rate_bps=4e6, delay_s=0.01, down=True)
    lines = [
        " ".join(command)
        for command in tc.changes(asked, "a", "eth1", ADDRESSES, {AB: link, ("b", "a"): link}, {"campus": 2e6})
    ]
    assert lines == [
        "tc class change dev eth1 parent 1: classid 1:1001 htb rate 2000000bit ceil 2000000bit "
        "burst 3028 cburst 3028 quantum 1514",
        "tc class change dev eth1 parent 1:1001 classid 1:1 htb rate 1000bit ceil 4000000bit "
        "burst 3028 cburst 3028 quantum 1514",
        "tc qdisc change dev eth1 parent 1:1 handle 11: netem limit 1002 delay 10000us",
        "tc filter replace dev eth1 parent 1: protocol ip prio 1 handle 800::1 u32 match ip dst 198.19.0.2/32 "
        "flowid 1:2000",
    ]


def test_tc_refuses_changes_of_what_was_not_set_up() -> None:
    asked = topology({AB: Link(delay_s=0.01, jitter_s=0.001)})
    with pytest.raises(EmulationError, match="a -> c was not set up"):
        tc.changes(asked, "a", "eth1", ADDRESSES, {("a", "c"): Link()}, {})
    with pytest.raises(EmulationError, match="bottleneck campus was not set up; those that were: none"):
        tc.changes(asked, "a", "eth1", ADDRESSES, {}, {"campus": 1e6})
    normal = Link(delay_s=0.01, jitter_s=0.001, distribution=Distribution.NORMAL)
    with pytest.raises(EmulationError, match="cannot change the distribution of jitter from uniform to normal"):
        tc.changes(asked, "a", "eth1", ADDRESSES, {AB: normal}, {})


# As iproute2 6.1 says it.
QDISCS = """[{"kind":"htb","handle":"1:","root":true,"refcnt":3,"options":{"r2q":10,"default":"0"}},
{"kind":"blackhole","handle":"2000:","parent":"1:2000","options":{}},
{"kind":"netem","handle":"11:","parent":"1:1","options":{"limit":1207,"delay":{"delay":0.025,"jitter":0,"correlation":0},
"loss-random":{"loss":0.015,"correlation":0},"ecn":false,"gap":0},"bytes":10,"packets":1,"drops":0,"qlen":0}]"""
CLASSES = """class htb 1:1 root leaf 11: prio 0 rate 100Mbit ceil 100Mbit burst 12500b cburst 12500b
class htb 1:2000 root leaf 2000: prio 0 rate 1Kbit ceil 1Kbit burst 1600b cburst 1600b
"""
FILTERS = """filter parent 1: protocol ip pref 1 u32 chain 0
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800: ht divisor 1
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::1 order 1 key ht 800 bkt 0 *flowid 1:1 not_in_hw
  match c6130002/ffffffff at 16
"""


def state(qdiscs: str = QDISCS, classes: str = CLASSES, filters: str = FILTERS) -> device_state.State:
    return device_state.read("eth1", qdiscs, classes, filters)


COMMANDS = tc.commands(topology({AB: Link(rate_bps=100e6, delay_s=0.025, loss=0.015)}), "a", "eth1", ADDRESSES)


def test_what_tc_says_is_what_was_asked() -> None:
    assert device_state.deviations(COMMANDS, {"eth1": state()}) == ()
    [shown] = state().destinations()
    assert (shown["address"], shown["rate_bps"], shown["delay_s"], shown["loss"]) == ("198.19.0.2", 1e8, 0.025, 0.015)
    assert (shown["down"], shown["drops"]) == (False, 0)


@pytest.mark.parametrize(
    ("differs", "named"),
    [
        (state(QDISCS.replace("netem", "pfifo")), "netem limit 1207"),
        (state(QDISCS.replace("0.025", "0.035")), "netem limit 1207"),
        (state(QDISCS.replace('"loss-random":{"loss":0.015,"correlation":0},', "")), "netem limit 1207"),
        (state(QDISCS.replace('"gap":0', '"gap":1,"reorder":{"reorder":0.2}')), "netem limit 1207"),
        (state(classes=CLASSES.replace("ceil 100Mbit", "ceil 10Mbit")), "classid 1:1 "),
        (state(filters=FILTERS.replace("flowid 1:1", "flowid 1:2000")), "tc filter add"),
        (state(filters=FILTERS.replace("c6130002", "c6130003")), "tc filter add"),
        (state(QDISCS.replace('"htb"', '"pfifo"')), "root handle 1: htb"),
    ],
)
def test_what_is_not_in_force_is_named(differs: device_state.State, named: str) -> None:
    [said] = device_state.deviations(COMMANDS, {"eth1": differs})
    assert named in said.split("in force is")[0]


def test_what_tc_never_says_is_an_error() -> None:
    with pytest.raises(EmulationError, match="unreadable"):
        state("[{")
    with pytest.raises(EmulationError, match="a rate is '8bps'"):
        state(classes=CLASSES.replace("1Kbit", "8bps"))
    [said] = device_state.deviations(COMMANDS[3:4], {})
    assert "the device is not there" in said


def test_on_host_takes_words_of_tc_and_ip_and_nothing_else() -> None:
    for command in (("rm", "-rf"), ("tc", "qdisc show\nqdisc del"), ("tc", "a;b"), ("ip",)):
        with pytest.raises(EmulationError, match="is no command of tc or ip"):
            on_host.run([command])
    for argv, text in (([], "{}"), (["reboot"], "{}"), (["show"], "x"), (["show"], '{"device": "a b"}')):
        with pytest.raises(InputError):
            on_host.main(argv, text)
    with pytest.raises(InputError, match="are texts"):
        on_host.main(["apply"], json.dumps({"device": "eth1", "commands": [["tc", 1]]}))
