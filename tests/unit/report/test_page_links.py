"""The page's table of links: all are in it, and many that training did not use are behind a click."""

from __future__ import annotations

from itertools import product

import pytest
import sample_report as sample

from e2c_dl.report.page import sections
from e2c_dl.report.rows import LinkRow, link_rows


def rows(idle: int) -> list[LinkRow]:
    """The links of the sample, and ``idle`` ones more."""
    used = [row for row in link_rows(sample.links(), sample.report(sample.activity(6))) if row.used]
    hosts = [f"fog-{number}" for number in range(10)]
    return [*used, *(LinkRow(src=a, dst=b) for a, b in list(product(hosts, hosts))[:idle])]


@pytest.mark.parametrize("idle", [0, 12, 90])
def test_links_that_training_did_not_use_hide_no_other_section(idle: int) -> None:
    page, _, hidden = sections.links(rows(idle), ()).partition("<details>")
    shown = page.count("<tr") - 1  # its head
    assert shown == len(rows(0)) + (idle if idle <= sections.UNFOLDED else 0)
    assert hidden.count('<td class="n">not used</td>') == (idle if idle > sections.UNFOLDED else 0)
    assert (f"{idle} links more that training did not use" in hidden) == (idle > sections.UNFOLDED)
