"""e2c_dl for scripts and notebooks: a run's archive as tables and frozen values, and runs begun from Python.

::

    import e2c_dl

    run = e2c_dl.simulate("experiments/first-light", shapes_only=True)      or e2c_dl.load("runs/first-light")
    run.report.culprits[0].saved_s                                          frozen values
    run.spans(columns=["host", "phase", "start_ns", "end_ns"])              a DataFrame, read when it is asked for
"""

from e2c_dl.api.archived import ArchivedRun, load
from e2c_dl.api.running import deploy, simulate

__all__ = ["ArchivedRun", "deploy", "load", "simulate"]
