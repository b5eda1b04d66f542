"""Names in tables at a terminal, whatever brackets are in them: rich takes those of a str for markup."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from e2c_dl.cli.emulate import _print_in_force
from e2c_dl.diagnosis.straggler.metrics import Stragglers
from e2c_dl.report.stragglers import summary


@pytest.mark.parametrize("name", ["a[fast]", "x[/y]"])
def test_stragglers(name: str) -> None:
    found = Stragglers(
        measured_s=2.0, replayed_s=2.0, ideal_s=1.0, slowdown=2.0, slowdown_by_kind={"forward": 2.0},
        slowdown_by_worker={name: 2.0}, slowdown_by_stage={}, slowdown_by_step={0: 2.0}, slowest_workers=(name,),
        slowest_share=1.0, last_stage_share=None, limitations=(),
    )  # fmt: skip
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(summary(found))
    assert console.export_text().count(name) == 2


@pytest.mark.parametrize("same", [True, False])
def test_links_in_force(same: bool, capsys: pytest.CaptureFixture[str]) -> None:
    link = SimpleNamespace(described=lambda: "5 Mbit/s")
    _print_in_force((SimpleNamespace(src="a[fast]", dst="x[/y]", requested=link, in_force=link, same=same),))
    shown = capsys.readouterr().out
    assert "a[fast] → x[/y]" in shown and ("not as requested" in shown) is not same
