"""A bar that was measured in part is no bar that holds."""

from __future__ import annotations

from click.testing import CliRunner

from benchmarks.agreement import __main__ as agreement
from benchmarks.agreement import cases
from benchmarks.agreement.figures import MOST_BUSY, Comparison
from benchmarks.fidelity import __main__ as fidelity
from benchmarks.fidelity import drawn
from benchmarks.routing import __main__ as routing
from benchmarks.routing.worlds import LIVE, Compared
from benchmarks.straggler import __main__ as straggler


def case(busy: float = 0.1) -> Comparison:
    return Comparison(
        kind="systems", network="fast", strategy="allreduce", live_s=1.0, virtual_s=1.01, busy=busy, compute_s=0.1
    )


def test_agreement_of_some_cases_or_of_busy_ones() -> None:
    every = [case() for _ in cases.CASES]
    of = len(every)
    assert agreement.missed(every) == []
    assert agreement.missed(every[:-2]) == [f"2 of {of} cases not measured"]
    assert agreement.missed([*every[1:], case(busy=MOST_BUSY + 0.1)]) == [f"1 of {of} cases not measured"]
    assert agreement.missed([]) == ["no case counts"]


def test_fidelity_of_one_back_end_alone() -> None:
    failed = [drawn.Result(link=link, failure="no kernel") for link in drawn.links(2, 1, drawn.FASTEST_BPS)]
    assert fidelity.missed({"relay": failed}) == ["relay: 2 of 2 not within", "tc: not measured"]


def test_routing_that_was_simulated_alone() -> None:
    def compared(run: str) -> Compared:
        return Compared(run=run, way="a -> b", healthy_s=70, healthy_hearing_s=70, slow_s=80, slow_hearing_s=72)

    assert routing.missed([compared("simulated, seed 1")]) == ["live: not compared"]
    assert routing.missed([compared("simulated, seed 1"), compared(LIVE)]) == []


def test_straggler_metrics_without_their_authors_program() -> None:
    assert "not measured: name a clone by --program" in straggler.missed(True, compared=False)[0]
    assert straggler.missed(True, compared=True) == []
    refused = CliRunner().invoke(straggler.main, ["--write"])
    assert refused.exit_code == 2
    assert "name a clone of it by --program" in refused.output
