"""How sure a verdict is: nothing is healthy where costs are of a replay that does not know what ranks would decide."""

from __future__ import annotations

from dataclasses import replace

import sample_report as sample

from e2c_dl.report.verdict import Tone, verdict_of

AS_FAR = "none costs 5 % or more by itself as far as a replay tells, in which nobody decides otherwise."


def test_what_costs_little_in_a_replay_may_cost_much_where_ranks_decide_otherwise() -> None:
    departing = sample.report(sample.activity(iterations=6))
    known = replace(departing, culprits=(), together_s=0.0)
    assert verdict_of(known).tone is Tone.HEALTHY
    said = verdict_of(replace(known, replayed=True))
    assert said.tone is Tone.UNDECIDED and AS_FAR in said.headline
    nothing = replace(known, findings=())
    assert verdict_of(replace(nothing, replayed=True)) == verdict_of(nothing), "nothing departs"
