"""End a run on static machines of which only the registry is left: over SSH, then here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from e2c_dl.emulation import tc
from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.machines import facts
from e2c_dl.testbeds.namespaces import cleanup as here
from e2c_dl.testbeds.this_machine import processes

PLACE = "/tmp/e2c-dl-"
"""A run's directory on a machine is this, the run's id, a hyphen and the host's name."""

SHAPED = "shaped"
"""Of the registry's details: whether the data devices are claimed."""

_KILL_WITHIN_S = 20.0


def directory(access: Access) -> str:
    """Everything of the run on that machine; ``run_dir`` lies in it, and so does what finalize packs beside it."""
    return access.run_dir.rpartition("/")[0]


def destroy(run_id: str, base: Path | None = None, *, keep: Collection[str] = ()) -> tuple[str, ...]:
    """End run ``run_id``, alive or dead, on all its machines and here; what that was, one line each.

    The run directories of the hosts ``keep`` stay.

    Raises: TestbedError: a machine cannot be reached, or something stays; the registry keeps the run, to try again.
    """
    unknown = f"what it has on its machines, {PLACE}{run_id}-*"
    return destroy_elsewhere(run_id, base, lambda run: _ended(run, keep), unknown=unknown, keep=keep)


def destroy_elsewhere(
    run_id: str,
    base: Path | None,
    end: Callable[[registry.RegisteredRun], Sequence[str]],
    *,
    unknown: str,
    keep: Collection[str] = (),
) -> tuple[str, ...]:
    """``end`` what the run has elsewhere, one line each, then remove what it has here, but for what is to ``keep``.

    ``unknown``: what stays elsewhere if the registry does not tell. Raises: TestbedError if ``end`` fails: then the
    registry keeps the run, to try again.
    """
    place = registry.run_directory(run_id, base)
    try:
        run = registry.load(run_id, base)
    except TestbedError as error:  # damaged
        return (*here.destroy(run_id, base), f"not known: {unknown}: {error}")
    except InputError:  # nothing says any more what it had
        return here.destroy(run_id, base)
    # First who would go on working, then what was made.
    processes.kill(lambda: processes.all_of(run_id, place), _KILL_WITHIN_S)
    try:
        removed = end(run)
    except (TestbedError, InputError) as error:
        raise TestbedError(
            f"not everything could be removed: {error}; `e2c-dl destroy {run_id}` tries again"
        ) from error
    return (*removed, *here.destroy(run_id, base, keep=keep))  # last: the registry knows the run until all is gone


def _ended(run: registry.RegisteredRun, keep: Collection[str]) -> list[str]:
    """Raises: TestbedError, naming every machine on which something stays."""
    shaped, arguments = run.details.get(SHAPED), {}
    for each in run.hosts:
        device = each.data_device if shaped else ""
        stays = os.path.basename(each.run_dir) if each.name in keep else ""
        arguments[each.name] = [run.id, directory(each), device, json.dumps(tc.clear(each.data_device)), stays]
    answers = facts.ask(run.hosts, "end", arguments)
    failed = [f"{name}: {answer.failure}" for name, answer in answers.items() if answer.failure is not None]
    if failed:  # after all were asked: one that is off must not leave the others shaped
        raise TestbedError("; ".join(failed))
    return [f"{name}: {line}" for name, answer in answers.items() for line in answer.value]
