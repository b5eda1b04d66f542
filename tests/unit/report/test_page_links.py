"""Links and workers that training did not use, or of which nobody knows: as the page and the terminal tell them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import sample_report as sample

from e2c_dl import formatting
from e2c_dl.report import terminal, words
from e2c_dl.report.page import sections
from e2c_dl.report.rows import LinkRow, link_rows, unused_words


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


def test_a_link_of_a_host_without_a_trace_is_not_said_to_be_unused() -> None:
    """What it carried, if it did, nobody knows."""
    whole = sample.report(sample.activity(6))
    idle = next(row for row in link_rows(sample.links(), replace(whole, links=())) if not row.used)
    torn = replace(whole, links=(), untraced=(idle.dst,))
    found = {row.pair: row for row in link_rows(sample.links(), torn)}
    assert found[idle.pair].unused == "not traced"
    assert '<td class="n">not traced</td>' in sections.links(list(found.values()), ())
    assert unused_words(found.values()) == "that training did not use, or whose use is not traced"
    apart = [row for row in found.values() if idle.dst not in row.pair]
    assert {row.unused for row in apart} <= {"not used"}


def test_how_many_workers_left_no_trace_is_told_beside_those_that_did() -> None:
    whole = sample.report(sample.activity(6))
    assert "on 1 worker, and 5 workers without a trace." in str(
        terminal._totals(replace(whole, hosts=whole.hosts[:1], untraced=("a", "b", "c", "d", "e")))
    )


def test_iterations_that_a_trace_lacks_make_no_rank_go_at_its_own_pace() -> None:
    whole = sample.report(sample.activity(6))
    hosts = tuple(replace(each, iterations=60, complete=True) for each in whole.hosts)
    lacking = replace(whole, hosts=hosts, iterations=10)
    assert words.iterations(lacking) == "60"
    assert words.pace(lacking).endswith(" each (median)")


def test_what_hosts_without_a_trace_sent_is_not_nothing() -> None:
    whole = sample.report(sample.activity(6))
    sent = formatting.size(sum(link.sent_bytes for link in whole.links))
    for links, told in ((whole.links, f"≥ {sent}"), ((), formatting.DASH)):
        tiles = sections.tiles(replace(whole, links=links, untraced=("edge-9",)), ())
        assert f"<b>{told}</b><span>sent over links</span>" in tiles
    assert f"<b>{sent}</b><span>sent over links</span>" in sections.tiles(whole, ())
