"""Traces of any training script: attached to it unchanged (`e2c-dl trace`), or by three lines in it.

::

    from e2c_dl import tracing as trace

    with trace.run("traces/mine"):
        for i in trace.iteration(range(100)):
            with trace.span("data"):
                ...

``bootstrap/`` is put before a script's own path, ``attached`` waits in its process for torch, ``hooks/`` patch it,
``session`` records one rank.
"""

from e2c_dl.tracing.api import iteration, run, span

__all__ = ["iteration", "run", "span"]
