"""Ways in which ranks train beside plain DistributedDataParallel, traced beside untraced.

Each rank is traced by a command of its own, which torchrun or horovodrun starts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from test_traced_script import SCRIPTS, horovodrun, phases, run, torchrun

from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.trace.model import Collective, Phase, RankTrace

pytest.importorskip("torch")

COMMAND = (sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "trace", "--archive")


def trained(launcher: tuple[str, ...], folder: Path, *script: str, **environment: str) -> tuple[ReadArchive, str]:
    """The archive of ``script`` traced, and its output; its files are to the bit what it leaves untraced."""
    left = []
    for name in ("plain", "traced"):
        out = folder / name
        out.mkdir()
        traced = (*COMMAND, str(folder / "archive"), "--") if name == "traced" else ()
        words = (sys.executable, str(SCRIPTS / script[0]), *script[1:], str(out / "model.pt"))
        done = run(*launcher, *traced, *words, **environment)
        assert done.returncode == 0, done.stderr
        left.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert left[0] and left[0] == left[1]
    archive = open_archive(folder / "archive")
    assert (archive.path / "report.json").exists(), archive.run.limitations
    return archive, done.stdout


def of_collectives(rank: RankTrace) -> Mapping[str, int]:
    return Counter(Collective(kind).name for kind in rank.spans["kind"][rank.spans["phase"] == Phase.COLLECTIVE])


@pytest.mark.slow
def test_own_collectives_both_fsdps_graphs_scaled_gradients_own_hooks_and_forks(tmp_path: Path) -> None:
    archive, said = trained(torchrun("--no-python"), tmp_path, "many_ways.py")
    assert said == "done\ndone\n"
    trace = archive.trace()
    assert [rank.rank for rank in trace.ranks] == [0, 1], "forks are none"
    for rank in trace.ranks:
        found, of = phases(rank), rank.spans[rank.spans["phase"] == Phase.COLLECTIVE]
        assert (found["ITERATION"], found["STEP"]) == (22, 21), "of a step that the scaler left out, too"
        assert min(found["FORWARD"], found["BACKWARD"]) >= 22
        assert of_collectives(rank) == {"ALL_REDUCE": 22, "ALL_GATHER": 6, "REDUCE_SCATTER": 6}
        waits = rank.spans[rank.spans["phase"] == Phase.AWAIT_COLLECTIVE]
        assert all(np.sum(waits["seq"] == seq) <= 1 for seq in of["seq"]), "joining is no wait for what comes later"
    for word in ("torch.compile", "GradScaler"):
        assert any(word in sentence for sentence in archive.run.limitations)


@pytest.mark.slow
def test_several_backward_passes_for_each_step_of_horovod(tmp_path: Path) -> None:
    script = ("horovod_mlp.py", "--passes", "2", "--recorded", str(tmp_path / "timeline.json"), "--out")
    environment = {"HOROVOD_FUSION_THRESHOLD": "0", "HOROVOD_TIMELINE": "DYNAMIC"}  # the script starts and stops it
    archive, _ = trained(horovodrun(), tmp_path, *script, **environment)
    for rank in archive.trace().ranks:
        found = phases(rank)
        assert (found["ITERATION"], found["FORWARD"], found["BACKWARD"]) == (4, 8, 3 * 8), "in 3 buckets"
        assert of_collectives(rank)["ALL_REDUCE"] == 3 * 4 + 1, "of steps, and the script's own"
    assert list((archive.path / "hosts").glob("*/timeline.json"))
    assert not any("DYNAMIC" in sentence for sentence in archive.run.limitations), "it is no file"
