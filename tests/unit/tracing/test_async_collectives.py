"""Collectives that go on while the script does: what is recorded of them, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_raising_scripts import attached

from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks.collectives import Collectives, _message
from e2c_dl.tracing.hooks.unwaited import UNWAITED
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import Settings
from e2c_dl.tracing.tracer import Tracer

c10d = pytest.importorskip("torch.distributed.distributed_c10d")


class Work:
    """What torch gives back of a call that goes on."""

    def wait(self) -> None:
        """It is over."""


class Polled(Work):
    """Is over once it was asked so often."""

    def __init__(self, times: int) -> None:
        self.left = times

    def is_completed(self) -> bool:
        self.left -= 1
        return self.left <= 0


class Script:
    """A script's calls, and the phases that are recorded of them."""

    def __init__(self, folder: Path) -> None:
        tracer = Tracer(Settings(archive=folder), {})
        self.session = tracer.session = Session(tracer.settings)
        self.collectives = Collectives(tracer)

    def joins(self, work: object, group: object = None) -> object:
        return self.collectives.call(Collective.ALL_REDUCE, group, 8, False, lambda: work, (), {})

    def waits(self, work: object) -> None:
        self.collectives.wait(work, lambda _: self.session.clock(), (), {})

    def polls(self, work: Polled, meanwhile: Callable[[], object]) -> None:
        while not (over := work.is_completed()):
            self.collectives.asked(work, over)
            meanwhile()
        self.collectives.asked(work, over)

    def waited_ms(self) -> list[int]:
        rows = [row for row in self.session._told() if row[12] == Phase.AWAIT_COLLECTIVE]
        return [round((end_ns - start_ns) / 1e6) for _, start_ns, end_ns, *_ in rows]

    @property
    def recorded(self) -> list[tuple[Phase, int]]:
        return [(Phase(row[12]), row[4]) for row in self.session._told() if row[12] == Phase.COLLECTIVE]

    @property
    def said(self) -> list[str]:
        return self.session.said.limitations


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_what_is_waited_for_lasts_until_then(script: Script) -> None:
    first, second = script.joins(Work()), script.joins(Work())
    script.waits(second)
    script.waits(first)
    script.collectives.unwaited.end()
    assert script.recorded == [(Phase.COLLECTIVE, 1), (Phase.COLLECTIVE, 0)]
    assert script.said == []


def test_what_nobody_waits_for_is_said_and_is_no_collective_of_whatever_is_waited_for_later(script: Script) -> None:
    works = Work(), Work()
    keys = [id(script.joins(work)) for work in works]
    del works
    assert script.said == [UNWAITED]
    others = [Work() for _ in range(999)]
    assert {id(each) for each in others} & set(keys), "memory is used again"
    for each in others:
        script.waits(each)
    assert script.recorded == []


def test_what_is_kept_and_never_waited_for_is_said_at_the_end(script: Script) -> None:
    kept = script.joins(Work())
    assert script.said == []
    script.collectives.unwaited.end()
    assert script.said == [UNWAITED]
    script.collectives.unwaited.forget()
    script.waits(kept)
    assert script.recorded == []


def test_who_asks_until_it_is_over_waits_as_long_as_nothing_else_is_done_meanwhile(script: Script) -> None:
    script.session.clock = iter(range(0, 10**9, 1_000_000)).__next__  # type: ignore[misc]
    work = script.joins(Polled(4))
    script.polls(work, lambda: None)
    assert script.waited_ms() == [3]
    work = script.joins(Polled(3))

    def trains() -> None:
        script.session.enter(Phase.FORWARD)
        script.session.leave()

    script.polls(work, trains)
    del work
    assert script.waited_ms() == []
    assert script.said == []


def test_what_a_future_is_asked_for_was_waited_for_though_its_work_is_gone(script: Script) -> None:
    work, future = Work(), Work()
    script.joins(work)
    unwaited = script.collectives.unwaited
    unwaited.hold(future, unwaited.of(work))
    del work
    assert script.said == []
    script.waits(future)
    assert script.recorded == [(Phase.COLLECTIVE, 0)]
    other = Work()
    script.joins(other)
    unwaited.hold(future, unwaited.of(other))
    del other, future
    assert script.said == [UNWAITED]


ASKED = """
import time, torch
from torch import distributed
from torch.distributed import _functional_collectives as functional
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
def joined():
    return distributed.all_reduce(torch.ones(4), async_op=True)
joined().get_future().wait()
joined().get_future().then(lambda future: future.value()).wait()
torch.futures.collect_all([joined().get_future(), joined().get_future()]).wait()
torch.futures.wait_all([joined().get_future()])
work = joined()
while not work.is_completed():
    time.sleep(0.001)
free = torch.futures.Future()
free.set_result(1)
free.wait()
parameter = torch.nn.Parameter(torch.ones(2))
torch.optim.SGD([parameter]).step()
functional.all_reduce(torch.ones(4), "sum", distributed.group.WORLD).sum()
@torch.compile(backend="eager", fullgraph=True)
def graph(values):
    return functional.wait_tensor(functional.all_reduce(values, "sum", distributed.group.WORLD)) + 1
assert graph(torch.ones(2)).tolist() == [2, 2]
torch.optim.SGD([parameter]).step()
distributed.destroy_process_group()
"""


def test_each_way_to_wait_for_torchs_own_is_seen(tmp_path: Path) -> None:
    ((spans, limitations),) = attached(tmp_path, "-c", ASKED).values()
    assert spans["seq"][spans["phase"] == Phase.COLLECTIVE].tolist() == list(range(6))
    waits = spans[spans["phase"] == Phase.AWAIT_COLLECTIVE]
    assert (waits["seq"] == -1).sum() == 1, "of a functional one"
    assert UNWAITED not in limitations


def test_what_torch_collects_to_join_it_later_is_not_asked(script: Script) -> None:
    script.joins(c10d._IllegalWork())
    assert script.said == [UNWAITED]


def test_a_message_that_is_asked_for_wrongly_is_refused_in_torchs_own_words(script: Script) -> None:
    def isend(tensor: object, dst: int) -> None:
        """Stands for torch's."""

    with pytest.raises(TypeError, match=r"isend\(\) missing 2 required positional arguments"):
        _message(script.collectives, "dst", lambda: False)(isend)()
