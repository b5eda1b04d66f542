"""The published scenarios that stand beside the checkout, migrated and checked: all of them are valid afterwards."""

from pathlib import Path

import pytest
from published import scenario

from e2c_dl.migration.migrate import migrate
from e2c_dl.migration.model import Asked
from e2c_dl.scenario.load import load, problems
from e2c_dl.testbeds.e2clab.schemas import refusals

DCL = "dcl-experiments-scripts"
PUBLISHED = {
    f"{DCL}/hparams/chifflot/2": "Horovod",
    f"{DCL}/xps/chifflot/8": "Horovod",
    f"{DCL}/xps/chifflot-docker/2": "Horovod",
    f"{DCL}/xps/gemini-docker/4": "Horovod",
    "efficient-fl-clustering/scenarios/gpu/img/mnist": "FLServer and FLClient",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_is_valid_and_says_what_it_needs(tmp_path: Path, repository: Path, name: str) -> None:
    old = scenario(repository, name, tmp_path / "old")
    assert problems(old)
    migrate(old, tmp_path / "new", Asked())
    assert problems(tmp_path / "new") == ()
    assert refusals(tmp_path / "new") in ((), None)
    found = load(tmp_path / "new")
    assert found.program == PUBLISHED[name]
    sweeps = [remark for remark in found.remarks if "cannot work offline" in remark]
    assert len(sweeps) == ("hparams" in name)
