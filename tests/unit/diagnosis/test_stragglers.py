"""Metrics of Lin et al.: their own published results, examples worked by hand, and laws."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import job_traces
import numpy as np
import pytest
import simulated_scenario
import virtual_world
from commands import said
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.diagnosis.straggler.job_trace import read_job_trace
from e2c_dl.diagnosis.straggler.metrics import Operations, Stragglers, stragglers
from e2c_dl.diagnosis.straggler.precedence import Precedence
from e2c_dl.diagnosis.straggler.run_trace import operations_of
from e2c_dl.errors import AnalysisError, ArchiveError, NoArchive
from e2c_dl.strategies.adpsgd import ADPSGD
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.worlds.allotment import SharedCount

SAME = 1e-6


def of(tmp_path: Path, rows: list[job_traces.Row]) -> Stragglers:
    return stragglers(read_job_trace(job_traces.written(tmp_path / "trace.parquet", rows)))


@pytest.fixture(scope="module")
def published(oracles: Path) -> tuple[Stragglers, dict[str, dict[str, object]]]:
    folder = oracles / "straggler"
    results = {name: json.loads((folder / f"{name}-ST.json").read_text()) for name in ("result", "mw", "ms")}
    return stragglers(read_job_trace(folder / "trace-ST.parquet")), results


def test_what_was_published_of_a_job(published) -> None:
    ours, theirs = published
    assert ours.slowdown == pytest.approx(theirs["result"]["blocking_slowdown"], abs=SAME)
    assert ours.slowest_share == pytest.approx(theirs["mw"]["Mw"], abs=SAME)
    assert ours.last_stage_share == pytest.approx(theirs["ms"]["Ms"], abs=SAME)
    assert (ours.replayed_s, ours.ideal_s) == pytest.approx((theirs["mw"]["tori"], theirs["mw"]["tideal"]), abs=SAME)


def test_what_was_published_of_its_parts(published) -> None:
    ours, theirs = published[0], published[1]["result"]
    assert ours.slowdown_by_kind == pytest.approx(theirs["blocking_decompose_by_optype"], abs=SAME)
    stages = {str(stage): slowdown for stage, slowdown in ours.slowdown_by_stage.items()}
    assert stages == pytest.approx(theirs["blocking_decompose_by_stage"], abs=SAME)
    steps = {str(step): slowdown for step, slowdown in ours.slowdown_by_step.items()}
    assert steps == pytest.approx(theirs["blocking_step_slowdown"], abs=SAME)
    of_rows, of_stages = theirs["blocking_decompose_by_dp_rank"], theirs["blocking_decompose_by_stage"]
    # Ranks are numbered stage by stage, two data-parallel ranks each.
    workers = {str(r): min(of_rows[str(r % 2)], of_stages[str(r // 2)]) for r in range(8)}
    assert ours.slowdown_by_worker == pytest.approx(workers, abs=SAME)


def test_one_slow_rank_is_all_of_it(tmp_path: Path) -> None:
    found = of(tmp_path, job_traces.data_parallel([[1.0, 3.0]]))  # ideal: forward 2, backward 2
    assert (found.replayed_s, found.ideal_s, found.slowdown) == (5.0, 4.0, 1.25)
    assert found.slowdown_by_worker == {"1": 1.25, "0": 1.0}
    assert (found.slowest_workers, found.slowest_share) == (("1",), 1.0)
    assert found.last_stage_share == 1.0  # all workers are in it
    assert found.slowdown_by_kind["forward-compute"] == 1.25


def test_a_slow_last_stage(tmp_path: Path) -> None:
    found = of(tmp_path, job_traces.pipeline([3.0, 6.0]))  # ideal: forward 1.5, backward 2.75, transfers 0.5
    assert (found.replayed_s, found.ideal_s) == (11.0, 9.5)
    assert found.last_stage_share == pytest.approx((11 - 7.25) / (11 - 9.5))
    assert found.slowdown_by_stage == pytest.approx({1: (1.5 + 0.5 + 2 + 6 + 0.5 + 2.75) / 9.5, 0: 1.0 - 2.25 / 9.5})
    assert found.slowest_workers == ("3",)
    assert found.unexplained == 0


def test_workers_that_are_alike(tmp_path: Path) -> None:
    found = of(tmp_path, job_traces.data_parallel([[1.0, 1.0], [1.0, 1.0]]))
    assert found.slowdown == 1.0
    assert (found.slowest_share, found.last_stage_share) == (None, None)


def test_steps_that_are_missing_or_torn_are_left_out(tmp_path: Path) -> None:
    rows = job_traces.data_parallel([[1.0, 3.0]] * 5)
    whole = of(tmp_path, rows)
    torn = [row for row in rows if row["step"] != 1]  # missing altogether
    torn = [row for row in torn if (row["step"], row["dp_rank"], row["optype"]) != (3, 1, "optimizer")]
    found = of(tmp_path, random.Random(1).sample(torn, len(torn)))  # in any order
    assert found.slowdown_by_step.keys() == {0, 2, 4}
    assert found.limitations == ("Left out, as not all ranks recorded all of it: 3.",)
    assert (found.slowdown, found.slowest_share) == (whole.slowdown, whole.slowest_share)


def test_reduce_scatters_beside_backward(tmp_path: Path) -> None:
    rows = job_traces.data_parallel([[1.0, 3.0]])
    scattered = [row for row in rows if row["optype"] == "grads-reduce-scatter"]
    rows = [row for row in rows if row not in scattered]
    for dp, at_s in enumerate((3.0, 5.0)):  # each from its backward's end until both are there, and half a second more
        kinds = (("grads-reduce-scatter", at_s, 5.5 - at_s), ("separate-grads-all-reduce", 5.5, 0.25))
        rows += [job_traces.op(dp, 0, 0, kind, at, length, stages=1) for kind, at, length in kinds]
    for row in rows:
        if row["optype"] == "grads-reduce-scatter":
            row["mc"] = 0
        elif row["optype"] in ("optimizer-clip-main-grad", "optimizer"):
            row["start_ts"] = 5.75
    found = of(tmp_path, rows)
    assert (found.replayed_s, found.ideal_s) == (5.75, 4.75)  # ideal: forward 2, backward 2, 0.5, 0.25
    assert found.unexplained == 0


def test_chunks_that_are_not_written(tmp_path: Path) -> None:
    rows = job_traces.data_parallel([[1.0, 3.0]])
    unwritten = [{key: None if value == -1 else value for key, value in row.items()} for row in rows]
    assert of(tmp_path, unwritten) == of(tmp_path, rows)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"optype": "all-to-all"}, "optype 'all-to-all' is not known"),
        ({"dp_rank": 0}, "no step was recorded whole by all ranks"),
        ({"seq_id": None}, "a value is missing in it"),
        ({"duration": -1.0}, "a duration is below 0"),
        ({"duration": math.nan}, "duration holds something else than seconds"),
        ({"start_ts": math.inf}, "start_ts holds something else than seconds"),
        ({"stage": -1}, "stages are numbered from 0"),
        ({"stage": 10**9}, "stages are numbered from 0"),
        ({"rank": 1 << 60}, "rank holds something else than whole numbers"),
    ],
)
def test_what_is_no_such_trace(tmp_path: Path, change: dict[str, object], line: str) -> None:
    rows = job_traces.data_parallel([[1.0, 3.0]])
    rows[-1] = {**rows[-1], **change}
    with pytest.raises(AnalysisError, match=line):
        of(tmp_path, rows)


@pytest.mark.parametrize(
    ("column", "value", "line"),
    [
        ("duration", 0.0, "or all of them are 0"),
        ("duration", "1", "duration holds something else than seconds"),
        ("seq_id", "0", "seq_id holds something else than whole numbers"),
        ("step", 0.5, "step holds something else than whole numbers"),
        ("mc", "0", "mc holds something else than whole numbers"),
    ],
)
def test_a_column_that_is_none_of_such_a_trace(tmp_path: Path, column: str, value: object, line: str) -> None:
    with pytest.raises(AnalysisError, match=line):
        of(tmp_path, [{**row, column: value} for row in job_traces.data_parallel([[1.0, 3.0]])])


@pytest.mark.parametrize("by", [-7, 10**15])
def test_numbers_of_operations_may_begin_anywhere(tmp_path: Path, by: int) -> None:
    rows = job_traces.data_parallel([[1.0, 3.0]])
    assert of(tmp_path, [{**row, "seq_id": row["seq_id"] + by} for row in rows]).slowdown == of(tmp_path, rows).slowdown


def test_several_ranks_of_a_tensor_parallel_group(tmp_path: Path) -> None:
    rows = job_traces.data_parallel([[1.0, 3.0]])
    with pytest.raises(AnalysisError, match="no step was recorded whole by all ranks; record"):
        of(tmp_path, [*rows, *({**row, "rank": row["rank"] + 2} for row in rows)])


def test_a_stage_whose_transfers_are_missing(tmp_path: Path) -> None:
    rows = [row for row in job_traces.pipeline([3.0]) if row["optype"] != "backward-send"]
    with pytest.raises(AnalysisError, match="backward-recv 0 of stage 0 has no other end"):
        of(tmp_path, rows)


def test_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "trace.parquet").write_text("rank,step\n")
    with pytest.raises(NoArchive, match="cannot be read as Parquet"):
        read_job_trace(tmp_path / "trace.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "trace.parquet")
    with pytest.raises(ArchiveError, match="is a link"):
        read_job_trace(tmp_path / "link.parquet")


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 5), strategy=st.sampled_from([Allreduce, ADPSGD]))
def test_the_replay_of_a_simulated_run_explains_all_of_it(seed: int, size: int, strategy: type) -> None:
    run = virtual_world.run(strategy, size=size, seed=seed, noise=0.1)
    found = stragglers(operations_of(run.trace))
    # Copies that two tasks of a worker make wait for each other, which nothing records: microseconds.
    assert found.unexplained == pytest.approx(0, abs=1e-5 if strategy is Allreduce else 1e-2)


def test_without_a_pipeline_a_worker_is_as_slow_as_by_its_own_operations_whatever_the_job_is() -> None:
    """Two workers, one after the other; what one did more slowly than both in the mean, the other did sooner."""
    found = stragglers(
        Operations(
            kind=np.zeros(2, dtype=np.int64), row=np.arange(2), stage=np.zeros(2, dtype=np.int64),
            step=np.zeros(2, dtype=np.int64), measured_s=np.array([3.0, 1.0]), ideal_s=np.array([2.0, 2.0]),
            precedence=Precedence.of(2, np.array([0]), np.array([1])), kinds=("forward",), rows=2, stages=0,
            workers=(("a", 0, 0), ("b", 1, 0)), steps=(0,), steps_s=np.array([4.0]),
        )
    )  # fmt: skip
    assert found.slowdown == 1.0
    assert found.slowdown_by_worker == {"a": 1.25, "b": 0.75}


@settings(max_examples=15, deadline=None)
@given(size=st.integers(3, 6), slow=st.integers(0, 5), factor=st.floats(2, 6))
def test_the_one_slow_host_is_the_slowest(size: int, slow: int, factor: float) -> None:
    factors = [factor if rank == slow % size else 1.0 for rank in range(size)]
    links = virtual_world.everywhere(size, virtual_world.LinkModel(rate_bps=1e9, delay_s=0.0001))
    run = virtual_world.run(Allreduce, size=size, factors=factors, links=links)
    found = stragglers(operations_of(run.trace))
    assert found.slowest_workers == (f"edge-{slow % size + 1}",)
    assert found.slowdown > 1.2 and found.slowest_share > 0.9
    assert found.last_stage_share is None and found.slowdown_by_stage == {}


@given(data=st.data())
def test_ends_are_longest_paths(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True) if pairs else st.just([]))
    number = np.array(data.draw(st.permutations(range(count))))  # operations are numbered in any order
    lengths = np.array(data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), dtype=float)
    earlier, later = number[np.array(edges, dtype=np.int64).reshape(-1, 2).T]
    precedence = Precedence.of(count, earlier, later)
    expected = np.zeros(count)
    for each in range(count):
        before = [expected[number[a]] for a, b in edges if b == each]
        expected[number[each]] = max(before, default=0.0) + lengths[number[each]]
    ends = precedence.ends(np.stack([lengths, 2 * lengths], axis=1)[precedence.order])
    assert np.array_equal(ends, np.stack([expected, 2 * expected], axis=1)[precedence.order])


def test_a_circle_is_told() -> None:
    with pytest.raises(AnalysisError, match="2 of 3 operations wait for each other in a circle"):
        Precedence.of(3, np.array([0, 1, 2]), np.array([1, 2, 1]))


def test_the_command_on_a_job_trace(tmp_path: Path) -> None:
    path = job_traces.written(tmp_path / "trace.parquet", job_traces.pipeline([3.0, 6.0]))
    found = json.loads(said("stragglers", path, "--json").out)
    assert (found["slowdown"], found["slowest_workers"]) == (pytest.approx(11 / 9.5), ["3"])
    shown = said("stragglers", path).out
    assert "a run takes 11.0 s, and 9.50 s if all workers were alike" in shown
    assert "with the last pipeline stage" in shown and "stage 1" in shown


def test_the_command_on_an_archive(tmp_path: Path) -> None:
    archive = simulated_scenario.simulated(simulated_scenario.scenario(tmp_path / "s"), shapes_only=True)
    found = json.loads(said("stragglers", archive.path, "--json").out)
    assert found["slowdown_by_worker"].keys() == set(archive.hosts)
    assert found["slowdown"] >= 1 and found["last_stage_share"] is None


def test_the_command_where_there_is_nothing(tmp_path: Path) -> None:
    assert said("stragglers", tmp_path / "none") == (2, "", f"e2c-dl: {tmp_path}/none: is no archive (it has no run.json); name the directory that a run printed\n")  # fmt: skip  # noqa: E501


def test_of_ranks_at_their_own_pace_it_says_what_no_figure_tells() -> None:
    run = virtual_world.run(ADPSGD, size=3, factors=[1.0, 1.0, 4.0], allotment=SharedCount(30.0, (1, 1, 1)))
    (said,) = (each for each in operations_of(run.trace).limitations if "own pace" in each)
    assert "no figure tells that time" in said
    assert operations_of(virtual_world.run(Allreduce, size=3).trace).limitations == ()


def test_of_a_run_that_lacks_a_host_or_whose_clocks_are_wrong_it_tells_nothing() -> None:
    trace = virtual_world.run(Allreduce, size=3).trace
    with pytest.raises(AnalysisError, match="^trace: edge-9 left none: what the others waited for"):
        operations_of(trace, ["edge-9"])
    spans = trace.ranks[1].spans.copy()
    for name in ("posted_ns", "start_ns", "end_ns"):
        spans[name] += 100 * 10**9
    ahead = replace(trace, ranks=(trace.ranks[0], replace(trace.ranks[1], spans=spans), trace.ranks[2]))
    with pytest.raises(AnalysisError, match="^trace: messages arrive up to .* before they are sent"):
        operations_of(ahead)
    unaligned = replace(trace, facts={**trace.facts, "hosts_without_clock": ("edge-2",)})
    assert [each[:30] for each in operations_of(unaligned).limitations] == ["Clocks of edge-2 were never al"]
