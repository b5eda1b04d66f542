"""Figures that a page tells in few digits say what the report and the terminal say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sample_report as sample

from e2c_dl.archive.run import Run
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.report import terminal
from e2c_dl.report.page import heat, matrix, sections
from e2c_dl.report.rows import LinkRow


@pytest.mark.parametrize(
    ("rate_bps", "said"),
    [
        (40e3, "0.04"), (9.985e6, "9.98"), (999.4e6, "999"), (999.7e6, "1k"), (1e9, "1k"), (9.96e9, "10k"),
        (99.7e9, "100k"),
    ],
)  # fmt: skip
def test_a_square_says_a_rate_without_an_exponent(rate_bps: float, said: str) -> None:
    link = LinkFidelity.from_json(sample.links()[0])
    assert link.measured is not None
    link = replace(link, measured=replace(link.measured, rate_bps=rate_bps))
    assert f">{said}</td>" in matrix.heat_map([link])


def test_what_is_as_designed_is_exactly_that_in_the_heat_map() -> None:
    shades = heat.shaded(np.array([1.0, 3.0, 100.0, 0.1, np.nan])).astype(float)
    shown = heat.LEAST * (heat.SLOWEST / heat.LEAST) ** ((shades - 1) / heat.SHADES)
    assert shown[0] == pytest.approx(1.0, rel=1e-12)
    assert shown[1] == pytest.approx(3.0, rel=0.01)
    assert [shown[2], shown[3], shades[4]] == [heat.SLOWEST, heat.LEAST, 0]


def test_the_command_of_a_run_can_be_typed_again() -> None:
    command = ("e2c-dl", "simulate", "my scenario", "--set", "link:a->b.rate=1mbit")
    assert "e2c-dl simulate &#x27;my scenario&#x27; --set &#x27;link:a-&gt;b.rate=1mbit&#x27;" in sections.reproduce(
        Run(run_id="r", command=command)
    )


def test_a_page_has_the_first_of_very_many_links_that_training_did_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MOST_IDLE", 20)
    page = sections.links([LinkRow(src="a", dst=str(number)) for number in range(50)], ())
    assert page.count('<td class="n">not used</td>') == 20
    assert "50 links more that training did not use (here the first 20, in links.json all)" in page


@pytest.mark.parametrize(("most", "where"), [(20, "in links.json"), (50, "on the page")])
def test_a_terminal_says_where_the_others_are(monkeypatch: pytest.MonkeyPatch, most: int, where: str) -> None:
    monkeypatch.setattr(terminal, "MOST_IDLE", most)
    rows = [LinkRow(src="a", dst=str(number)) for number in range(50)]
    table = terminal._links(rows, sample.report(sample.activity(2)))
    assert table.caption == f"... and 44 links more that training did not use, {where}"
