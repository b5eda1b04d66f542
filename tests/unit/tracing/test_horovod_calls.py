"""Horovod's collectives that scripts call: their numbers in process sets and behind a join, and what lasts until it is
waited for. Here they are called of a stand-in; the optimizer of Horovod's own is in test_traced_script."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2c_dl.trace.collectives import WORLD
from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks import with_horovod
from e2c_dl.tracing.hooks.collectives import nbytes_of
from e2c_dl.tracing.hooks.horovod_calls import Called
from e2c_dl.tracing.hooks.patches import Patches
from e2c_dl.tracing.hooks.with_horovod import ANEW, catch_up, go_on
from e2c_dl.tracing.numbers import BETWEEN_JOINS
from e2c_dl.tracing.rendezvous import Alone, meet, own_peer
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import Settings
from e2c_dl.tracing.tracer import Tracer

torch = pytest.importorskip("torch")

ALL = SimpleNamespace(process_set_id=0)
EVEN = SimpleNamespace(process_set_id=3)


class Horovod(SimpleNamespace):
    """What is asked of horovod.torch: some call others of it, as its do."""

    def __init__(self) -> None:
        super().__init__(
            allreduce=self.allreduce_of, allreduce_async=self.allreduce_async_of, synchronize=self.synchronize_of,
            allgather_async=self.allreduce_async_of, sparse_allreduce_async=self.sparse_of, join=lambda: 0,
            DistributedOptimizer=Horovod, broadcast_optimizer_state=(act := lambda step: step()),
            broadcast_object=lambda obj, root_rank=0: obj,
            elastic=SimpleNamespace(state=SimpleNamespace(broadcast_optimizer_state=act)),
        )  # fmt: skip
        self.handles = 0

    def allreduce_of(self, tensor: Any, name: str = "", process_set: Any = ALL) -> Any:
        return self.synchronize(self.allreduce_async(tensor, name, process_set=process_set))

    def allreduce_async_of(self, _tensor: Any, _name: str = "", process_set: Any = ALL) -> int:
        assert process_set is not None
        self.handles += 1
        return self.handles

    def synchronize_of(self, handle: int) -> int:
        return handle

    def sparse_of(self, tensor: Any, name: str) -> tuple[int, int]:
        return self.allgather_async(tensor, name), self.allgather_async(tensor, name)


class Script:
    """A script's calls, and what is recorded of them."""

    def __init__(self, folder: Path) -> None:
        self.tracer = tracer = Tracer(Settings(archive=folder), {})
        self.session = tracer.session = Session(tracer.settings)
        self.hvd = Horovod()
        Called(tracer).hook(self.hvd, Patches())

    @property
    def collectives(self) -> list[tuple[int, int, Collective]]:
        """(group, number, kind) of each."""
        rows = self.session._told()
        return [(row[7], row[4], Collective(row[13])) for row in rows if row[12] == Phase.COLLECTIVE]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_collectives_of_a_process_set_leave_the_numbers_of_all_ranks_alone(script: Script) -> None:
    script.hvd.allreduce(1.0, "all")
    script.hvd.allreduce(1.0, "even", process_set=EVEN)
    script.hvd.allreduce(1.0, "even", EVEN)
    script.hvd.allreduce(1.0, "all", process_set=ALL)
    numbers = [(group, number) for group, number, _ in script.collectives]
    assert numbers == [(WORLD, 0), (3, 0), (3, 1), (WORLD, 1)]


def test_what_is_begun_lasts_until_it_is_waited_for_under_its_own_number(script: Script) -> None:
    first, second = (script.hvd.allreduce_async(1.0, name) for name in ("a", "b"))
    assert script.collectives == []
    script.hvd.synchronize(second)
    script.hvd.synchronize(first)
    script.hvd.synchronize(99)  # of the optimizer's, which is told elsewhere
    assert script.collectives == [(WORLD, 1, Collective.ALL_REDUCE), (WORLD, 0, Collective.ALL_REDUCE)]


def test_the_two_gathers_of_a_sparse_gradient_are_none_of_the_scripts(script: Script) -> None:
    for handle in script.hvd.sparse_allreduce_async(1.0, "sparse"):
        script.hvd.synchronize(handle)
    assert script.collectives == []
    assert script.session.next_seq() == 0


def test_ranks_with_more_data_than_others_count_as_they_do_behind_a_join(tmp_path: Path) -> None:
    ranks = [Script(tmp_path), Script(tmp_path)]
    for batches, script in zip((2, 5), ranks, strict=True):
        for number in range(batches):
            script.hvd.allreduce(1.0, str(number))
        script.hvd.join()
        script.hvd.allreduce(1.0, "accuracy")
    ends = [script.collectives[-2:] for script in ranks]
    assert ends[0] == ends[1]
    assert ends[0] == [
        (WORLD, BETWEEN_JOINS, Collective.BARRIER),
        (WORLD, BETWEEN_JOINS + 1, Collective.ALL_REDUCE),
    ]


def test_what_horovod_fuses_is_said_of_its_own_optimizers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path)
    monkeypatch.setattr(with_horovod, "exchange", lambda _: Alone())
    script.hvd.rank, script.hvd.size = (lambda: 0), (lambda: 2)
    hooks = with_horovod.Hooks(script.tracer, Patches(), script.hvd, Called(script.tracer))
    monkeypatch.setattr(script.session, "meet", lambda *_: None)
    hooks.initialised(lambda: None)()
    assert script.session.said.limitations == []

    class Built(torch.optim.SGD):
        def synchronize(self) -> None:
            pass

    hooks.made(Built)([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    assert script.session.said.limitations == [with_horovod.FUSED]


def test_steps_that_horovod_makes_to_find_a_state_are_none_where_it_is_elastic_either(script: Script) -> None:
    prepared = script.hvd.elastic.state.broadcast_optimizer_state(lambda: script.session.preparing)
    assert prepared and not script.session.preparing
    assert script.collectives == [(WORLD, 0, Collective.BROADCAST)]


def test_who_comes_later_finds_those_that_stay_and_counts_on_with_them(tmp_path: Path) -> None:
    first, second, newcomer = (Script(tmp_path / name).session for name in ("first", "second", "newcomer"))
    for rank, session in enumerate((first, second)):
        session.ranks = meet(own_peer(rank, {"port": 7}), 2, Alone(), within_s=0.0)
        session.next_seq(count=40 + rank)  # one of them was in the midst of a step
    server = Alone()
    for rank, session in enumerate((first, second)):
        go_on(session, rank, server)
    assert first.said.limitations == [ANEW]
    newcomer.ranks = meet(own_peer(2, {}), 3, server)
    assert newcomer.ranks.missing == (), "at once"
    assert newcomer.ranks.peers[0].offers["port"] == 7
    catch_up(newcomer)
    assert newcomer.next_seq() == first.next_seq() == second.next_seq() == BETWEEN_JOINS


def test_an_object_that_is_sent_is_handed_on_unseen_whatever_it_holds(script: Script) -> None:
    holding_itself: list[Any] = [1.0]
    holding_itself.append(holding_itself)
    assert script.hvd.broadcast_object(holding_itself, root_rank=0) is holding_itself
    assert script.collectives == [(WORLD, 0, Collective.BROADCAST)]


def test_bytes_of_a_state_are_those_of_its_tensors_as_of_named_parameters() -> None:
    state = {"weight": torch.ones(2), "bias": torch.ones(3), "batches": 7}
    assert nbytes_of(state) == nbytes_of(list(state.items())) == 4 * (2 + 3)
