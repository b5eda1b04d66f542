"""Batches and steps that are late on purpose, among what changed while it trained."""

from test_report_schedules import change, written

from e2c_dl.diagnosis.diagnose import changed_in
from e2c_dl.trace.changes import Change


def test_batches_and_steps_that_are_late_have_plots_and_sentences(tmp_path):
    late = (
        change(Change.DATA, "edge-1", 1.0, late_s=0.0, later_s=0.2), change(Change.DATA, "edge-1", 2.0, later_s=0.0),
        change(Change.STEP, "edge-2", 0.0, late_s=0.0, later_s=0.05),
    )  # fmt: skip
    found = changed_in(written(tmp_path, changes=late, emulation="compute: {factors: {edge.*: 2}}\n"))
    data, step = found.panels
    assert (data.title, data.unit) == ("edge-1: batches, and how much later they are asked to be", "ms")
    assert data.requested == [(0.0, 0.0), (1.0, 200.0), (2.0, 0.0)]
    assert step.title.startswith("edge-2: steps, ")
    assert len(step.measured) == 12 and all(0 < at_s < found.end_s and took > 0 for at_s, took in step.measured)
    assert found.sentences == (
        "batches of host edge-1: changed 2 times (later by 0 s to 200 ms), requested from 1.00 s to 2.00 s, "
        "in force at most 1.00 ms later",
        "steps of host edge-2: changed once (later by 50.0 ms), requested at 0 s, in force on time",
    )
