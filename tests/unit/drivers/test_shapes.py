"""Workers that compute nothing: processes over loopback, by a stored profile and without torch."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import loopback
import numpy as np
import pytest
from simulated_scenario import PROFILE, TIMES

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.scenario.load import load
from e2c_dl.trace.model import Phase, Spans
from e2c_dl.trace.recording.recorder import read_spans

ASKED = {"iterations": 6, "evaluate_every": 3, "bucket_bytes": "1MiB"}
SPEED = 0.1


def ended(path: Path, **env: object) -> loopback.Run:
    run = loopback.prepare(path, [16, 16], members={"speed": SPEED}, **{**ASKED, **env})
    (path / "scenario" / "profile.json").write_text(PROFILE.to_json())
    run.start()
    assert run.wait() == [0, 0]
    return run


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[loopback.Run]:
    """Its workers end with what they have imported, one name a line, in the file ``modules`` of their directory."""
    path = tmp_path_factory.mktemp("shapes")
    told = "import atexit, sys; from pathlib import Path\n"
    told += "atexit.register(lambda: Path(sys.argv[2], 'modules').write_text('\\n'.join(sys.modules)))\n"
    with pytest.MonkeyPatch.context() as patch:
        first_of_all(path / "site", told, patch)
        yield ended(path / "run", mathematics="shapes")


def first_of_all(site: Path, code: str, patch: pytest.MonkeyPatch) -> None:
    """loopback's workers run ``code`` before anything else."""
    site.mkdir()
    (site / "sitecustomize.py").write_text(code)
    patch.setattr(sys, "path", [str(site), *sys.path])


def spans(run: loopback.Run, rank: int) -> Spans:
    found, complete = read_spans(run.directory(rank) / "spans.bin")[1:]
    assert complete
    return found


def test_workers_import_no_torch(shapes: loopback.Run) -> None:
    for rank in range(2):
        modules = (shapes.directory(rank) / "modules").read_text().split()
        assert "e2c_dl.worlds.live" in modules
        assert not {"torch", "sklearn", "scipy"} & {name.partition(".")[0] for name in modules}


def test_spans_and_bytes_are_those_of_torch(shapes: loopback.Run, tmp_path: Path) -> None:
    torch = ended(tmp_path / "run")
    for rank in range(2):
        assert structure(spans(shapes, rank)) == structure(spans(torch, rank))


def structure(found: Spans) -> Counter[tuple[int, ...]]:
    """What happened, how often, and how many KiB it moved; not when, nor in which order.

    Not to the byte: a message goes in one piece or in two, as it is overtaken or not, each with a header of its own.
    """
    names = ("phase", "iteration", "bucket", "src", "dst")
    return Counter((*(int(row[name]) for name in names), int(row["nbytes"]) // 1024) for row in found)


def test_a_gradient_lasts_as_long_as_the_profile_at_the_hosts_speed(shapes: loopback.Run) -> None:
    asked_s = (TIMES.data_s + TIMES.forward_s + sum(TIMES.backward_s)) / SPEED
    for rank in range(2):
        computed = spans(shapes, rank)
        for iteration in range(6):
            own = computed[(computed["task"] == -1) & (computed["iteration"] == iteration)]
            own = own[own["phase"] != Phase.EVALUATE]
            assert np.ptp(np.concatenate([own["start_ns"], own["end_ns"]])) / 1e9 >= asked_s - 1e-6


def test_no_loss_and_no_accuracy_are_claimed(shapes: loopback.Run) -> None:
    for rank in range(2):
        facts = shapes.read(rank, "facts.json")
        assert facts["mathematics"] == "shapes"
        assert "torch" not in facts and "torch" not in facts["versions"]
        assert facts["compute"]["agreed_s"] == pytest.approx([0.0011, 0.002])
        outcome = shapes.read(rank, "outcome.json")
        assert (outcome["status"], outcome["loss"], outcome["accuracy"]) == ("finished", None, None)
        lines = shapes.progress(rank)
        assert [line["iteration"] for line in lines] == [1, 2, 3, 4, 5, 6]
        assert all(line.get("loss") is None and line.get("accuracy") is None for line in lines)
        assert not (shapes.directory(rank) / "model.npz").exists()


def test_what_a_worker_records_never_gets_larger_than_a_reader_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cap_bytes = 40_000
    first_of_all(tmp_path / "site", f"import e2c_dl.beneath\ne2c_dl.beneath.LARGE_BYTES = {cap_bytes}\n", monkeypatch)
    run = ended(tmp_path / "run", mathematics="shapes", iterations=60, evaluate_every=60)
    for rank in range(2):
        own = run.directory(rank)
        assert all((own / name).stat().st_size <= cap_bytes for name in ("spans.bin", "connections.bin"))
        facts, found, complete = read_spans(own / "spans.bin")
        assert facts.lost.dropped > 0 and complete
        assert sum(found["phase"] == Phase.ITERATION) >= 20  # all, unless many are slow, as on a busy machine
        assert run.read(rank, "facts.json")["sockets"]["dropped"] > 0


def test_a_quota_with_nothing_to_compute_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"compute\.method: a CPU quota .*; write auto or sleep"):
        loopback.prepare(tmp_path / "run", [16, 16], mathematics="shapes", emulation="compute: {method: quota}\n")


def test_a_profile_of_another_model_is_refused(tmp_path: Path) -> None:
    from e2c_dl.drivers.live.stored import check_profile

    loopback.write_scenario(tmp_path / "s", [16, 16], [], mathematics="shapes", model="mlp")
    (tmp_path / "s" / "profile.json").write_text(PROFILE.to_json())
    with pytest.raises(InputError, match="measured for cnn in float32, but the scenario trains mlp in float32"):
        check_profile(load(tmp_path / "s"))


def test_a_workflow_that_leaves_the_profile_behind_is_refused(tmp_path: Path) -> None:
    loopback.write_scenario(tmp_path / "s", [16, 16], [], mathematics="shapes")
    workflow = "- hosts: edge.*\n  launch:\n    - ansible.builtin.shell: tar -c ./*.yaml\n"
    (tmp_path / "s" / "workflow.yaml").write_text(workflow)
    with pytest.raises(ScenarioError, match=r"not profile\.json, by which they compute .*; add the task of"):
        load(tmp_path / "s")
