"""The end of a run on virtual machines of which only the registry is left: they are destroyed, with all on them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.machines.cleanup import destroy_elsewhere
from e2c_dl.testbeds.vagrant import machines
from e2c_dl.testbeds.vagrant.planned import prefix

FOLDER = "vagrant"
"""In the run's directory: the Vagrantfile, and what vagrant knows of its machines."""


def destroy(run_id: str, base: Path | None = None, *, keep: Collection[str] = ()) -> tuple[str, ...]:
    """End run ``run_id``, alive or dead: none of its machines stays, whatever was still on them; one line each.

    Raises: TestbedError: vagrant or libvirt cannot be asked, or a machine stays; the registry keeps the run, to try
    again.
    """

    def end(run: registry.RegisteredRun) -> list[str]:
        removed = machines.destroy(run.id, run.directory / FOLDER)
        lost = [f"what {', '.join(sorted(keep))} had not handed over, with its machine"] if keep and removed else []
        return [*removed, *lost]

    return destroy_elsewhere(run_id, base, end, unknown=f"its virtual machines, named {prefix(run_id)}-*")
