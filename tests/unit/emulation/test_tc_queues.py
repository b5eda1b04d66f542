"""How long the queues are that tc makes, and that they follow the rates of bottlenecks; no root, no kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2c_dl.emulation import tc
from e2c_dl.emulation.agent import links as agents
from e2c_dl.emulation.agent.config import AgentConfig
from e2c_dl.emulation.tc import on_host
from e2c_dl.topology import Bottleneck, Link, Pair, Topology

ADDRESSES = {name: f"198.19.0.{number}" for number, name in enumerate("abcde", 1)}
LEAVING = (("a", "b"), ("a", "c"))


def topology(links: dict[Pair, Link], *bottlenecks: Bottleneck) -> Topology:
    return Topology(hosts=(), links=links, bottlenecks=bottlenecks)


def lines(commands: tuple[tc.Command, ...], word: str) -> list[str]:
    return [" ".join(command) for command in commands if word in command]


def access(rate_bps: float) -> Topology:
    links = {LEAVING[0]: Link(rate_bps=1e9, delay_s=0.05), LEAVING[1]: Link(rate_bps=1e9)}
    return topology(links, Bottleneck(name="access", rate_bps=rate_bps, links=LEAVING))


def test_queues_of_links_follow_the_rate_of_their_bottleneck() -> None:
    far, _ = lines(tc.commands(access(1e9), "a", "eth1", ADDRESSES), "netem")
    assert "limit 20641 " in far  # twice 1 Gbit/s times 0.1 s, and what is under way
    changed = tc.changes(access(10e6), "a", "eth1", ADDRESSES, {}, {"access": 1e9})
    assert lines(changed, "netem") == [far.replace(" add ", " change ")]  # the other one is long enough as it is
    assert lines(tc.changes(access(1e9), "a", "eth1", ADDRESSES, {}, {"access": 1e9}), "netem") == []


def test_a_link_that_changes_later_has_a_queue_for_the_rate_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[tc.Command, ...]] = []
    monkeypatch.setattr(on_host, "run", lambda commands: ran.append(tuple(commands)))
    config = AgentConfig(
        host="a", scenario="", log="", worker_pid=1, backend="tc", relay_socket=None, device="eth1", addresses=ADDRESSES
    )
    links, _ = agents.links_of(config, access(10e6))
    links.apply({}, {"access": 1e9})
    links.apply({LEAVING[0]: Link(rate_bps=1e9, delay_s=0.05, loss=0.01)}, {})
    assert "limit 20641 delay 50000us loss random 1%" in lines(ran[1], "netem")[0]


def test_a_bottleneck_where_links_arrive_has_a_queue_for_its_own_links_and_its_rate() -> None:
    near, far = (("b", "a"), ("c", "a")), (("d", "a"), ("e", "a"))
    links = dict.fromkeys(near, Link(delay_s=0.001)) | dict.fromkeys(far, Link(delay_s=0.5))
    shared = [Bottleneck(name=name, rate_bps=1e8, links=its) for name, its in (("near", near), ("far", far))]
    asked = topology(links, *shared)
    made = lines(tc.commands(asked, "a", "eth1", ADDRESSES), "bfifo")
    assert [line.rpartition(" ")[2] for line in made] == ["1514000", "25000000"]
    (changed,) = lines(tc.changes(asked, "a", "eth1", ADDRESSES, {}, {"far": 2e8}), "bfifo")
    assert changed == made[1].replace(" add ", " change ").replace("25000000", "50000000")
    fixed = replace(asked, bottlenecks=(shared[0], replace(shared[1], queue_bytes=30_000)))
    assert lines(tc.changes(fixed, "a", "eth1", ADDRESSES, {}, {"far": 2e8}), "bfifo") == []


def test_no_queue_is_longer_than_the_kernel_can_count() -> None:
    unlimited = Link(rate_bps=100e9, delay_s=0.1)  # as migrated scenarios write a rate that limits nothing
    (line,) = lines(tc.commands(topology({("a", "b"): unlimited}), "a", "eth1", ADDRESSES, netem=False), "bfifo")
    assert line.endswith(f"bfifo limit {2**32 - 1}")
