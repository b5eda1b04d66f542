"""What the benchmark of the tracer's cost makes of its runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import rooms, written
from benchmarks.overhead import __main__ as overhead
from benchmarks.overhead import job, others
from benchmarks.overhead.__main__ import NARROW_PERCENT, Run, half_width, interval, judged, summed_up

PAIRS = 40


def measured(longer: float, spread: float, seed: int = 1) -> dict[str, Any]:
    """Of one run, whose blocks with the tracer last ``longer`` times as long, with noise of ``spread``."""
    noise = np.random.default_rng(seed).normal(0.0, spread, (2, PAIRS))
    off, on = 0.08 * np.exp(noise[0]), 0.08 * longer * np.exp(noise[1])
    blocks = {"off": [[each] * 20 for each in off], "on": [[each] * 20 for each in on]}
    return {
        "seconds": {**blocks, "without": blocks["off"], "kineto": blocks["on"]}, "own": [own(80.0)] * 3, "bytes": 900.0,
        "kineto_bytes": 60_000.0, "missing": [],
    }  # fmt: skip


def timed(longer: float) -> dict[str, Any]:
    """Of one run of Horovod's, whose blocks with its timeline last ``longer`` times as long."""
    its = measured(1.0, 0.0)
    seconds = {**its["seconds"], "untimed": [[0.1] * 20] * 6, "timeline": [[0.1 * longer] * 20] * 6}
    return its | {"seconds": seconds, "timeline_bytes": 4321.4}


def own(hooks_us: float) -> dict[str, Any]:
    return {"hooks_us": hooks_us, "by_hook_us": {"post": 20.0}, "clocks_us": 10.0, "threads": 0.0, "spans": 8.0}


def runs(*each: dict[str, Any]) -> Sequence[Run]:
    return [summed_up(one) for one in each]


def test_blocks_that_last_as_long_differ_by_nothing() -> None:
    assert interval(runs(measured(1.0, 0.0)), "off", "on") == pytest.approx((0.0, 0.0, 0.0))


def test_threads_that_blocks_do_not_show_are_added() -> None:
    mean, lower, upper = interval(runs(measured(1.002, 0.0)), "off", "on", more=0.001)
    assert lower == pytest.approx(mean) == pytest.approx(0.3, abs=0.01)
    assert upper == pytest.approx(mean)


def test_a_run_counts_by_how_little_its_mean_varies() -> None:
    calm, disturbed = measured(1.001, 0.001), measured(1.05, 0.05, seed=2)
    mean, _, _ = interval(runs(calm, disturbed), "off", "on")
    assert mean == pytest.approx(0.1, abs=0.05)


def test_more_runs_make_the_interval_narrow() -> None:
    several = runs(*(measured(1.0, 0.01, seed) for seed in range(8)))
    one, all_of_them = judged("cnn", "ddp", several[:1]), judged("cnn", "ddp", several)
    assert half_width(one) > NARROW_PERCENT > half_width(all_of_them)
    assert half_width(judged("cnn", "ddp", runs(measured(2.0, 0.0)))) == pytest.approx(0.0), "wherever it lies"
    assert all_of_them["pairs"] == 8 * PAIRS


def test_each_part_of_the_bar_can_be_missed() -> None:
    heavy = measured(1.01, 0.0) | {"own": [own(200.0)], "bytes": 20_000.0}
    missed = judged("cnn", "ddp", runs(heavy))["missed"]
    assert [sentence.split(": ")[1] for sentence in missed] == [
        "up to 1.00 % longer", "200 us of its own per iteration, 116 us allowed", "20000 bytes per iteration",
    ]  # fmt: skip


def test_horovods_timeline_has_columns_of_its_own_and_other_jobs_a_dash() -> None:
    earlier = runs(measured(1.0, 0.0))
    rows = [judged("cnn", "ddp", earlier), judged("cnn", "horovod", [*earlier, *runs(timed(1.25))])]
    ddp, horovod = (line.split(" | ") for line in overhead.table(rows).splitlines()[2:])
    assert (ddp[5], ddp[10]) == ("-", "- |")
    assert (horovod[5], horovod[10]) == ("+25.00 % (+25.00 to +25.00)", "4321 |")
    assert not rows[1]["missed"], "of what others cost nothing is asked"


@pytest.mark.parametrize("framework", ["ddp", "horovod"])
def test_other_tools_have_blocks_of_their_own(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []

    def tool(kind: str) -> Any:
        entered.append(kind)
        return nullcontext(lambda: 240 if kind in ("kineto", "timeline") else 0)

    monkeypatch.setattr(job, "TOOLS", {kind: partial(tool, kind) for kind in others.TOOLS})
    for off, on in others.BESIDE[framework]:
        seconds, nbytes = job.beside(off, on, 3, 1, lambda count: [0.1] * count)
        assert {kind: [len(block) for block in its] for kind, its in seconds.items()} == {off: [20] * 3, on: [20] * 3}
        assert nbytes == 240 / (20 + job.WARM)
    assert Counter(entered) == {kind: 3 for pair in others.BESIDE[framework] for kind in pair}


def test_results_of_other_code_are_not_gone_on_with(tmp_path: Path) -> None:
    now = rooms.hashes(("e2c_dl/tracing",))
    kept = {"rooms": now, "rows": [1]}
    (tmp_path / "overhead.json").write_text(json.dumps(kept))
    assert written.unchanged("overhead", tmp_path) == kept
    (tmp_path / "overhead.json").write_text(json.dumps({**kept, "rooms": {"e2c_dl/tracing": "other"}}))
    assert written.unchanged("overhead", tmp_path) == {}
    assert written.unchanged("none", tmp_path) == {}


@pytest.mark.parametrize("resume", [False, True])
def test_a_job_that_is_written_leaves_the_others(monkeypatch: pytest.MonkeyPatch, resume: bool) -> None:
    earlier = [judged(model, "ddp", runs(measured(1.0, 0.01))) for model in ("cnn", "resnet")]
    results: dict[str, Any] = {}
    monkeypatch.setattr(overhead, "run", lambda *_, **__: measured(1.0, 0.01, seed=2))
    monkeypatch.setattr(written, "unchanged", lambda _: {"rows": earlier})
    monkeypatch.setattr(written, "write", lambda _, **its: results.update(its["values"]))
    arguments = ["--model", "cnn", "--framework", "ddp", "--runs", "2", "--write", *(["--resume"] if resume else [])]
    overhead.main.main(arguments, standalone_mode=False)
    cnn, resnet = results["rows"]
    assert (cnn["model"], len(cnn["runs"])) == ("cnn", 2)
    assert (earlier[0]["runs"][0] in cnn["runs"]) is resume
    assert resnet == earlier[1]
