"""A stopped process in the virtual world, against figures worked out by hand: its kernel goes on, it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import virtual_world
from test_virtual_links import BITS, VECTOR, send_to_last
from virtual_world import scripted

from e2c_dl.errors import PeerLost
from e2c_dl.ethernet import wire_bits
from e2c_dl.strategies.base import Message, Worker
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel, Onset, SharedRate
from e2c_dl.worlds.virtual.kernel import Pauses

MS = 1_000_000
RATE_BPS = 8e6
SERVICE_NS = round(BITS / RATE_BPS * 1e9)
BUFFER_BYTES = 14_480  # ten segments
BUFFER_NS = round(wire_bits(BUFFER_BYTES) / RATE_BPS * 1e9)
LINK = {(0, 1): LinkModel(rate_bps=RATE_BPS, delay_s=0.01, send_buffer_bytes=BUFFER_BYTES)}


def paused(rank: int, *pauses: tuple[float, float], size: int = 2, **of: object) -> tuple[virtual_world.HostModel, ...]:
    """Hosts of which ``rank`` is stopped meanwhile."""
    hosts = list(virtual_world.hosts(size))
    hosts[rank] = replace(hosts[rank], pauses=pauses, **of)  # type: ignore[arg-type]
    return tuple(hosts)


def test_work_waits_while_the_process_is_stopped() -> None:
    pauses = Pauses([(5e-9, 8e-9), (1e-9, 2e-9), (7e-9, 9e-9), (20e-9, 21e-9)])
    assert list(pauses) == [(1, 2), (5, 9), (20, 21)]
    assert [pauses.runs_ns(time_ns) for time_ns in (0, 1, 2, 5, 8, 9, 30)] == [0, 2, 2, 9, 9, 9, 30]
    assert [pauses.ends_ns(0, work_ns) for work_ns in (1, 2, 4, 5, 14, 15, 16)] == [1, 3, 5, 10, 19, 20, 22]
    assert [pauses.ends_ns(begin_ns, 2) for begin_ns in (2, 4, 6, 9)] == [4, 10, 11, 11]
    pauses.add(9, 20)
    assert list(pauses) == [(1, 2), (5, 21)]
    assert not Pauses()


def test_a_gradient_is_longer_by_what_it_was_stopped() -> None:
    async def script(worker: Worker) -> None:
        async for _ in worker.iterations():
            async for _ in worker.gradient():
                pass

    def ends(pauses: tuple[tuple[float, float], ...]) -> list[int]:
        run = virtual_world.run(scripted(script), size=1, links={}, on_hosts=paused(0, *pauses, size=1), iterations=2)
        return [int(end_ns) for end_ns in run.spans(0, Phase.ITERATION)["end_ns"]]

    first_ns, second_ns = ends(())
    pause = (first_ns / 2e9, first_ns / 2e9 + 1.0)
    assert ends((pause,)) == [first_ns + 1000 * MS, second_ns + 1000 * MS]
    assert ends((pause, (first_ns / 1e9 + 5.0, 9.0))) == ends((pause,))  # it has ended by then


def test_what_arrives_is_received_when_the_process_goes_on() -> None:
    run = send_to_last({0: [0, 0, 0]}, LINK, on_hosts=paused(1, (0.2, 1.0)))
    first_ns = 10 * MS + SERVICE_NS
    received = run.spans(1, Phase.RECEIVE)
    assert received["seq"].tolist() == [0, 1, 2]
    assert received["end_ns"].tolist() == [first_ns, 1000 * MS, 1000 * MS]
    assert received["start_ns"].tolist()[2] == 1000 * MS  # its header came while nobody read
    assert received["start_ns"].tolist()[1] < 200 * MS
    assert run.spans(1, Phase.AWAIT_MESSAGE)["end_ns"].max() == 1000 * MS
    assert run.spans(0, Phase.SEND)["end_ns"].max() < 3 * SERVICE_NS  # the sender does not notice


@pytest.mark.parametrize("shared", [False, True])
def test_a_stopped_sender_sends_what_its_kernel_has(shared: bool) -> None:
    access = [SharedRate(rate_bps=1e12, links=((0, 1),))] if shared else []
    at_ns = SERVICE_NS // 4
    run = send_to_last({0: [0, 0]}, LINK, bottlenecks=access, on_hosts=paused(0, (at_ns / 1e9, 1.0)))
    left_ns = SERVICE_NS - at_ns - BUFFER_NS  # of the first message's time, for what the process still held
    first_ns, second_ns = run.spans(1, Phase.RECEIVE)["end_ns"].tolist()
    assert first_ns == pytest.approx(1010 * MS + left_ns, abs=8)
    assert second_ns == pytest.approx(first_ns + SERVICE_NS, abs=8)
    sends = run.spans(0, Phase.SEND)
    assert sends["end_ns"].min() == pytest.approx(1000 * MS + left_ns - BUFFER_NS, abs=8)


def test_a_pause_shorter_than_the_buffer_costs_no_time_on_the_wire() -> None:
    at_s, longest_s = SERVICE_NS / 4e9, BUFFER_NS / 1e9
    run = send_to_last({0: [0, 0]}, LINK, on_hosts=paused(0, (at_s, at_s + 0.99 * longest_s)))
    assert run.result.end_ns == pytest.approx(10 * MS + 2 * SERVICE_NS, abs=8)


def test_others_get_the_share_of_a_stopped_sender() -> None:
    links = {(0, 2): LinkModel(rate_bps=1e9, send_buffer_bytes=0), (1, 2): LinkModel(rate_bps=1e9)}
    access = [SharedRate(rate_bps=RATE_BPS, links=((0, 2), (1, 2)))]
    run = send_to_last({0: [0], 1: [0]}, links, size=3, bottlenecks=access, on_hosts=paused(0, (0.0, 1.0), size=3))
    ends = {int(span["src"]): int(span["end_ns"]) for span in run.spans(2, Phase.RECEIVE)}
    assert ends == {1: pytest.approx(SERVICE_NS, abs=8), 0: pytest.approx(1000 * MS + SERVICE_NS, abs=8)}


def test_a_time_out_that_was_slept_through_comes_after_what_has_arrived() -> None:
    got: list[object] = []

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            worker.send(1, Message(kind="a", payload=VECTOR))
        else:
            got.append(await worker.receive_any("a", timeout_s=0.02))  # too short, but for the pause

    run = virtual_world.run(scripted(script), size=2, links=LINK, on_hosts=paused(1, (0.01, 1.0)))
    assert got != [None]
    assert run.result.end_ns == 1000 * MS


def test_a_pause_that_begins_with_an_iteration_stops_what_is_under_way() -> None:
    async def script(worker: Worker) -> None:
        async for iteration in worker.iterations():
            if worker.rank == 0:
                worker.send(1, Message(kind="bulk", step=iteration, payload=VECTOR))
            else:
                await worker.receive("bulk", src=0, step=iteration)

    def pause(rank: int, iteration: int, now_ns: int) -> Onset | None:
        return Onset(paused_s=1.0) if (rank, iteration) == (0, 1) else None

    links = {(0, 1): replace(LINK[0, 1], send_buffer_bytes=0)}
    run = virtual_world.run(scripted(script), size=2, links=links, on_iteration=pause, unsteady=[(0, 1)], iterations=2)
    assert run.spans(0, Phase.SEND)["posted_ns"].tolist() == [0, 1000 * MS]
    assert run.result.end_ns == pytest.approx(1010 * MS + 2 * SERVICE_NS, abs=8)


def test_one_that_is_killed_while_it_is_stopped_is_lost() -> None:
    seen: list[str] = []

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            await worker.send(1, Message(kind="a", payload=VECTOR))
            await worker.receive("a", src=1)
            return
        try:
            await worker.receive("b", src=0)
        except PeerLost as lost:
            seen.append(str(lost))

    hosts = paused(0, (0.001, 9.0), killed_at_s=2.0)
    run = virtual_world.run(scripted(script), size=2, links=LINK, on_hosts=hosts)
    assert seen == ["lost rank 0: its process was killed"]
    assert run.result.killed == (0,)
    assert 2.0 < run.end_s < 3.0


def test_a_stopped_process_hears_a_farewell_when_it_goes_on() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            worker.send(1, Message(kind="a"))
        else:
            await worker.receive("a", src=0)
            with pytest.raises(PeerLost, match="has ended"):
                await worker.receive("a", src=0)

    run = virtual_world.run(scripted(script), size=2, links=LINK, on_hosts=paused(1, (0.001, 1.0)))
    assert run.result.end_ns == 1000 * MS
