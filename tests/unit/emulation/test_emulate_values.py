"""What `e2c-dl emulate` plans, compares, keeps and draws; nothing is measured here."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.archive.write import Archive
from e2c_dl.campaign.links import in_force, matrix, requested_links
from e2c_dl.campaign.links.targets import Target
from e2c_dl.cli.emulate import emulate
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.measuring.fidelity import BottleneckFidelity, LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured, Share
from e2c_dl.emulation.measuring.quick import rounds
from e2c_dl.errors import EmulationError, InputError
from e2c_dl.report.page import matrix as drawing
from e2c_dl.testbeds.base import Access
from e2c_dl.topology import Bottleneck, BurstLoss, Host, Link, Pair, Topology

NAMES = ("cloud-1", "edge-1", "edge-2", "fog-1")
LINKS: dict[Pair, Link] = {
    ("edge-1", "cloud-1"): Link(rate_bps=10e6, delay_s=0.01),
    ("edge-2", "fog-1"): Link(rate_bps=20e6, jitter_s=0.002, delay_s=0.01),
    ("cloud-1", "edge-1"): Link(rate_bps=10e6, loss=0.01),
}
UPLINK = Bottleneck(name="uplink", rate_bps=15e6, links=(("edge-1", "cloud-1"), ("edge-2", "fog-1")))


def access(name: str, number: int, pid: int | None = 7) -> Access:
    return Access(
        name=name, address=f"10.0.0.{number}", data_address=f"198.19.0.{number}", data_device="eth1", user="root",
        keyfile="/k", port=22, python="python3", run_dir="/r", netns_pid=pid,
    )  # fmt: skip


def topology(links: dict[Pair, Link] | None = None, bottlenecks: tuple[Bottleneck, ...] = (UPLINK,)) -> Topology:
    hosts = tuple(Host(name=n, layer="l", service="s", service_id=n, role=n, rank=i) for i, n in enumerate(NAMES))
    return Topology(hosts=hosts, links=LINKS if links is None else links, bottlenecks=bottlenecks)


def hosts(pid: int | None = 7, requested: Topology | None = None) -> Target:
    accesses = {name: access(name, number, pid) for number, name in enumerate(NAMES, 1)}
    asked = requested or topology()
    return Target(name="x", accesses=accesses, designed=topology(), requested=asked, backend=Backend.TC)


def measured(**values: object) -> Measured:
    plain = {
        "rate_bps": 10e6, "rate_is_floor": False, "round_trip_s": 0.0101, "round_trip_spread_s": 0.0, "pings": 101,
        "loss": 0.0, "loss_samples": 10_000, "thorough": True, "rate_interval_bps": (9.9e6, 10.1e6),
    }  # fmt: skip
    return Measured(**{**plain, **values})  # type: ignore[arg-type]


def row(src: str, dst: str, seen: Measured | None) -> LinkFidelity:
    return LinkFidelity.of(src, dst, designed=topology(), requested=topology(), measured=seen)


def test_links_are_chosen_by_pattern_and_without_one_those_that_are_shaped() -> None:
    assert matrix.selected(hosts(), ()) == sorted(LINKS)
    assert matrix.selected(hosts(), ("edge-?:cloud-*", "edge-1:*")) == [
        ("edge-1", "cloud-1"), ("edge-2", "cloud-1"), ("edge-1", "edge-2"), ("edge-1", "fog-1"),
    ]  # fmt: skip
    assert len(matrix.selected(hosts(requested=topology({}, ())), ())) == 12
    for wrong in ("edge-9:fog-1", "edge-1", "edge-1:edge-1"):
        with pytest.raises(InputError, match=r"--pairs .* names no link; write SRC:DST"):
            matrix.selected(hosts(), (wrong,))


def test_no_host_and_no_bottleneck_is_measured_twice_at_a_time() -> None:
    planned = rounds(sorted(LINKS), (UPLINK,))
    assert sorted(pair for part in planned for pair in part) == sorted(LINKS)
    for part in planned:
        names = [name for pair in part for name in pair]
        assert len(names) == len(set(names))
        assert len(set(part) & set(UPLINK.links)) <= 1
    assert matrix.at_once(hosts(), 2) == 1 and matrix.at_once(hosts(), 9) == 4
    assert matrix.at_once(hosts(pid=None), 2) == 2


def test_what_is_in_force_is_compared_as_far_as_tc_tells() -> None:
    shown = {
        "edge-1": {
            "destinations": [
                {"address": "198.19.0.1", "down": False, "rate_bps": 9.998e6, "queue": "netem", "delay_s": 0.01},
                {"address": "198.19.0.99", "down": False, "rate_bps": 1e6},
            ]
        },
        "fog-1": {"destinations": [{"address": "198.19.0.2", "down": True, "rate_bps": None, "p": 0.01, "r": 0.3}]},
    }
    found = in_force._of_tc(hosts().accesses, shown)
    assert found["edge-1", "cloud-1"] == Link(rate_bps=9.998e6, delay_s=0.01)
    assert found["fog-1", "edge-1"] == Link(down=True, burst=BurstLoss(good_to_bad=0.01, bad_to_good=0.3))
    requested = LINKS["edge-1", "cloud-1"]
    same = in_force.InForce(src="a", dst="b", requested=requested, in_force=found["edge-1", "cloud-1"])
    assert same.same and same.to_json()["same"]
    assert not dataclasses.replace(same, in_force=None).same
    assert dataclasses.replace(same, requested=Link(), in_force=None).same


def test_commands_can_be_read_before_they_are_run() -> None:
    plain = topology(bottlenecks=())
    target = Target(name="x", accesses=dict(hosts().accesses), designed=plain, requested=plain, backend=Backend.TC)
    said = in_force.commands(target, plain)
    assert list(said) == [f"{name} (10.0.0.{number})" for number, name in enumerate(NAMES, 1)]
    assert any("netem" in line for line in said["edge-1 (10.0.0.2)"])
    assert not any("netem" in line for line in in_force.commands(target, None)["edge-1 (10.0.0.2)"])
    relay = in_force.commands(dataclasses.replace(target, backend=Backend.RELAY), plain)["relay"]
    assert "edge-2 -> fog-1: 20mbit, 10ms, jitter 2ms uniform" in relay and len(relay) == 12
    with pytest.raises(EmulationError, match="cannot be shaped"):
        in_force.apply(dataclasses.replace(target, backend=Backend.NONE), plain)
    bursty = Link(burst=BurstLoss(good_to_bad=0.01, bad_to_good=0.3), reorder=0.1)
    assert bursty.described() == "unlimited, bursts of loss 3.23% in the mean, reorder 10%"
    assert Link(down=True).described() == "cut"


def test_what_was_measured_by_hand_replaces_its_rows_and_the_archive_still_verifies(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path / "a", "0123abcd", started="2026-01-01T00:00:00+00:00")
    old = [row("edge-1", "cloud-1", measured(thorough=False)), row("edge-2", "fog-1", measured(thorough=False))]
    (archive.path / layout.LINKS).write_text(json.dumps([each.to_json() for each in old]))
    archive.seal()
    new = row("edge-1", "cloud-1", measured(rate_bps=9.7e6))
    full = BottleneckFidelity(
        name="uplink",
        requested_bps=15e6,
        shares=((("edge-1", "cloud-1"), Share(rate_bps=7e6, interval_bps=(6e6, 8e6), offered_bps=9e6)),),
    )
    requested_links.store(archive.path, matrix.Matrix(links=(new, row("edge-2", "fog-1", None)), bottlenecks=(full,)))
    read = open_archive(archive.path)
    assert [LinkFidelity.from_json(each) for each in read.links()] == [new, old[1]]
    assert [BottleneckFidelity.from_json(each) for each in read.bottlenecks()] == [full]
    assert verify(archive.path) == ()
    assert full.deviations() == ("bottleneck uplink: 7.00 Mbit/s measured in all, 15.0 Mbit/s requested (-53.3%)",)
    with pytest.raises(EmulationError, match="another version"):
        BottleneckFidelity.from_json({"name": "x"})


def test_the_picture_shows_what_was_measured_and_marks_what_deviates() -> None:
    links = [
        row("edge-1", "cloud-1", measured()),
        row("cloud-1", "edge-1", measured(rate_bps=8e6, loss=0.011, loss_interval=(0.009, 0.013))),
        row("edge-2", "fog-1", None),
    ]
    page = drawing.section(links, ())
    assert page.count('class="t9"') == 1 and page.count('class="self"') == 4
    assert "8.00 Mbit/s measured, 10.0 Mbit/s requested (-20.0%)" in page
    assert "1.10 % (0.90 % to 1.30 %)" in page
    assert drawing.section([links[2]], ()) == ""
    assert page.index("<span>edge-2</span>") > page.index("<span>edge-1</span>") > page.index("<span>cloud-1</span>")
    head, rows = drawing.details(links)
    assert len(rows) == 2 and "delay spread requested" not in head and [mark for mark, _ in rows] == [False, True]
    strange = dataclasses.replace(links[0], src="<b>")
    assert "<b>" not in drawing.heat_map([strange]).replace("<b>ack", "")


def test_a_matrix_of_32_hosts_is_drawn() -> None:
    names = [f"edge-{number}" for number in range(1, 33)]
    links = [dataclasses.replace(row("a", "b", measured()), src=a, dst=b) for a in names for b in names if a != b]
    page = drawing.heat_map(links, names)
    assert page.count("<td") == 32 * 32
    assert page.index("edge-2<") < page.index("edge-10<")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["measure", "--run", "0123abcd", "--inventory", "x.yaml"], "write one of them"),
        (["show", "--run", "0123abcd"], "no such run has hosts up"),
        (["clear"], "no run is up"),
        (["apply", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_is_said(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E2CDL_STATE", str(tmp_path))
    result = CliRunner().invoke(emulate, arguments)
    assert isinstance(result.exception, InputError)
    assert said in str(result.exception)
