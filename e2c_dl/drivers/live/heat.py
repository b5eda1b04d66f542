"""The emulated temperature of a host that throttles itself, as CSV: once a second of training and at every switch.

Written when what was computed has ended, so that a killed worker loses what its last gradient did.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from e2c_dl.errors import EmulationError
from e2c_dl.scenario.thermal import Heat

COLUMNS = ("time_ns", "training_s", "temperature_c", "throttled")  # time_ns of the host's own clock


class HeatLog:
    """Appends to ``path``. Raises: EmulationError if it cannot be written."""

    def __init__(self, path: Path, own_ns: Callable[[int], int]) -> None:
        self._path, self._own_ns = path, own_ns
        self.began_ns = 0  # of the machine's clock: training
        try:
            self._file = path.open("w", buffering=1)
            self._file.write(",".join(COLUMNS) + "\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def add(self, heat: Heat) -> None:
        """One row. Raises: EmulationError."""
        time_ns = self._own_ns(self.began_ns + round(heat.time_s * 1e9))
        try:
            self._file.write(f"{time_ns},{heat.time_s:.6f},{heat.temperature_c:.4f},{int(heat.throttled)}\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        self._file.close()

    def _unwritable(self, error: OSError) -> EmulationError:
        return EmulationError(f"{self._path}: cannot be written: {error.strerror}; make room there")
