"""NVIDIA's management library: what GPUs are there, and once a second what they do. Only where it is installed.

It is asked by ``nvidia-ml-py`` (extra ``gpu``). Without that, without a driver or without a GPU there is a reason
instead, in one line. Values that a GPU does not tell are left out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

COLUMNS = (
    "gpu_busy_share", "gpu_memory_bytes", "gpu_temperature_c", "gpu_power_w", "gpu_energy_j", "gpu_sm_clock_hz",
    "gpu_memory_clock_hz", "gpu_throttle_reasons",
)  # fmt: skip
"""Of metrics.csv. Energy counts from when the driver was loaded; reasons are a mask, see :data:`REASONS`."""

REASONS = {
    0x1: "idle", 0x2: "clocks set by an application", 0x4: "power cap by software", 0x8: "slowdown by hardware",
    0x10: "synchronised with others", 0x20: "too hot, by software", 0x40: "too hot, by hardware",
    0x80: "power brake", 0x100: "clocks set for a display",
}  # fmt: skip
"""Bit -> why clocks are lower than they could be."""

SLOWING = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Those that make a GPU slower than it was asked to be."""


class Library(Protocol):
    """What is asked of the module ``pynvml``."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def __getattr__(self, name: str) -> Any: ...


class NoGpu(Exception):
    """Why nothing can be asked of GPUs here, in one line."""


class Nvml:
    """The library, initialised. Raises: NoGpu, if it cannot be."""

    def __init__(self, library: Library | None = None) -> None:
        self._library = library or _installed()
        try:
            self._library.nvmlInit()
        except self._library.NVMLError as error:  # no driver, or one that is not for this library
            raise NoGpu(f"NVML: {error}") from error

    def close(self) -> None:
        """Whoever asks afterwards is told nothing."""
        self._asked(self._library.nvmlShutdown)

    def facts(self) -> list[dict[str, Any]]:
        """Of each GPU of this host its name, uuid, memory, whether it is split (MIG); its driver's version."""
        ask, library = self._asked, self._library
        driver = ask(library.nvmlSystemGetDriverVersion)
        found = []
        for index in range(ask(library.nvmlDeviceGetCount) or 0):
            gpu = ask(library.nvmlDeviceGetHandleByIndex, index)
            memory = ask(library.nvmlDeviceGetMemoryInfo, gpu)
            mig = ask(library.nvmlDeviceGetMigMode, gpu)
            told = {
                "name": _text(ask(library.nvmlDeviceGetName, gpu)),
                "uuid": _text(ask(library.nvmlDeviceGetUUID, gpu)),
                "driver": _text(driver),
                "memory_bytes": None if memory is None else int(memory.total),
                "most_sm_clock_hz": _hz(ask(library.nvmlDeviceGetMaxClockInfo, gpu, library.NVML_CLOCK_SM)),
                "power_limit_w": _milli(ask(library.nvmlDeviceGetEnforcedPowerLimit, gpu)),
                "mig": None if mig is None else bool(mig[0]),
            }
            found.append({name: value for name, value in told.items() if value is not None})
        return found

    def sample(self, uuid: str) -> tuple[float | int | str, ...]:
        """A value for each of COLUMNS, of the GPU (or its part, under MIG) ``uuid``; empty text where it has none."""
        ask, library = self._asked, self._library
        gpu = ask(library.nvmlDeviceGetHandleByUUID, uuid)
        if gpu is None:
            return ("",) * len(COLUMNS)
        memory = ask(library.nvmlDeviceGetMemoryInfo, gpu)
        busy = ask(library.nvmlDeviceGetUtilizationRates, gpu)
        values = (
            None if busy is None else busy.gpu / 100,
            None if memory is None else int(memory.used),
            ask(library.nvmlDeviceGetTemperature, gpu, library.NVML_TEMPERATURE_GPU),
            _milli(ask(library.nvmlDeviceGetPowerUsage, gpu)),
            _milli(ask(library.nvmlDeviceGetTotalEnergyConsumption, gpu)),
            _hz(ask(library.nvmlDeviceGetClockInfo, gpu, library.NVML_CLOCK_SM)),
            _hz(ask(library.nvmlDeviceGetClockInfo, gpu, library.NVML_CLOCK_MEM)),
            ask(library.nvmlDeviceGetCurrentClocksThrottleReasons, gpu),
        )
        return tuple("" if value is None else value for value in values)

    def _asked(self, function: Callable[..., Any], *args: object) -> Any:
        """What it answers; None where this GPU, or its driver, has no answer."""
        try:
            return function(*args)
        except self._library.NVMLError:
            return None


def reasons(mask: int) -> Sequence[str]:
    """Words for the bits of ``mask``; a bit that has none is told by its number."""
    bits = [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return [REASONS.get(bit, f"reason {bit:#x}") for bit in bits]


def _installed() -> Library:
    try:
        library: Any = importlib.import_module("pynvml")
    except ImportError as error:
        raise NoGpu("nvidia-ml-py is not installed; install e2c_dl[gpu]") from error
    return library  # type: ignore[no-any-return]


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _milli(value: float | None) -> float | None:
    return None if value is None else value / 1e3


def _hz(mhz: int | None) -> int | None:
    return None if mhz is None else mhz * 1_000_000
