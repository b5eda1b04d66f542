"""Collectives that go on while the script does: what is recorded of them, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks.collectives import UNWAITED, Collectives, _message
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import Settings
from e2c_dl.tracing.tracer import Tracer

c10d = pytest.importorskip("torch.distributed.distributed_c10d")


class Work:
    """What torch gives back of a call that goes on."""

    def wait(self) -> None:
        """It is over."""


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
    script.collectives.end()
    assert script.recorded == [(Phase.COLLECTIVE, 1), (Phase.COLLECTIVE, 0)]
    assert script.said == []


def test_what_nobody_waits_for_is_said_and_is_no_collective_of_whatever_is_waited_for_later(script: Script) -> None:
    works = Work(), Work()
    keys = [id(script.joins(work)) for work in works]
    del works
    assert script.said == [UNWAITED]
    others = [Work() for _ in range(9)]
    assert {id(each) for each in others} & set(keys), "memory is used again"
    for each in others:
        script.waits(each)
    assert script.recorded == []


def test_what_is_kept_and_never_waited_for_is_said_at_the_end(script: Script) -> None:
    kept = script.joins(Work())
    assert script.said == []
    script.collectives.end()
    assert script.said == [UNWAITED]
    script.collectives.forget()
    script.waits(kept)
    assert script.recorded == []


def test_what_torch_collects_to_join_it_later_is_not_asked(script: Script) -> None:
    script.joins(c10d._IllegalWork())
    assert script.said == [UNWAITED]


def test_a_message_that_is_asked_for_wrongly_is_refused_in_torchs_own_words(script: Script) -> None:
    def isend(tensor: object, dst: int) -> None:
        """Stands for torch's."""

    with pytest.raises(TypeError, match=r"isend\(\) missing 2 required positional arguments"):
        _message(script.collectives, "dst", lambda: False)(isend)()
