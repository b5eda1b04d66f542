"""What several culprits cost together, which is not the sum of what each costs."""

from __future__ import annotations

from dataclasses import replace

import sample_report as sample

from e2c_dl import formatting
from e2c_dl.report.verdict import verdict_of


def test_what_several_culprits_cost_together_is_told() -> None:
    sick = sample.report(sample.activity(iterations=6))
    assert len(sick.culprits) == 2
    together = [each for each in verdict_of(sick).points if "together" in each]
    saved, of = formatting.seconds(sick.together_s), formatting.seconds(sick.run_s)
    assert together == [f"Both together would save {saved} of {of}."]
    assert sick.together_s > max(each.saved_s for each in sick.culprits)
    alone = replace(sick, culprits=sick.culprits[:1], together_s=0.0)
    assert not any("together" in each for each in verdict_of(alone).points)
