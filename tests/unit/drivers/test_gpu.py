"""NVML where it is not, and what is made of its answers where it is."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import HostFacts
from e2c_dl.drivers.live.gpu.nvml import COLUMNS, SLOWING, NoGpu, Nvml, reasons
from e2c_dl.drivers.live.gpu.sampled import Gpu
from e2c_dl.drivers.live.metrics import Metrics


class Answers:
    """A library with one GPU, which does not tell its power limit and knows no MIG."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        """As pynvml's."""

    def __init__(self, **different: Any) -> None:
        self._different = different

    def __getattr__(self, name: str) -> Any:
        answer = {
            "nvmlInit": None, "nvmlShutdown": None, "nvmlSystemGetDriverVersion": b"550.1", "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "gpu", "nvmlDeviceGetHandleByUUID": "gpu", "nvmlDeviceGetName": "A100",
            "nvmlDeviceGetUUID": "GPU-1", "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=8 << 30, used=1 << 30),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=75), "nvmlDeviceGetTemperature": 64,
            "nvmlDeviceGetPowerUsage": 250_500, "nvmlDeviceGetTotalEnergyConsumption": 12_345_678,
            "nvmlDeviceGetClockInfo": 1410, "nvmlDeviceGetMaxClockInfo": 1500,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x24, **self._different,
        }.get(name, self.NVMLError("Not Supported"))  # fmt: skip

        def asked(*_: object) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return asked


def test_a_host_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NoGpu, match=r"^nvidia-ml-py is not installed; install e2c_dl\[gpu\]$"):
        Nvml()


def test_the_real_library_without_a_driver_is_a_reason_in_the_facts(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    gpu = Gpu()
    if gpu.columns:
        pytest.skip("this host has a driver")
    records = HostRecords(tmp_path)
    records.write_facts(HostFacts(torch={"device_uuid": "GPU-1"}))
    gpu.begin(records)
    facts = records.facts()
    assert facts is not None
    assert facts.gpu == {"unknown": "NVML: NVML Shared Library Not Found"}
    assert gpu.sample() == ()
    Metrics(tmp_path / "metrics.csv", None, more=gpu).close()
    assert "gpu" not in (tmp_path / "metrics.csv").read_text()


def test_facts_and_samples_are_in_the_units_of_their_names() -> None:
    nvml = Nvml(Answers())
    assert nvml.facts() == [
        {
            "name": "A100", "uuid": "GPU-1", "driver": "550.1", "memory_bytes": 8 << 30,
            "most_sm_clock_hz": 1_500_000_000,
        }
    ]  # fmt: skip
    assert dict(zip(COLUMNS, nvml.sample("GPU-1"), strict=True)) == {
        "gpu_busy_share": 0.75, "gpu_memory_bytes": 1 << 30, "gpu_temperature_c": 64, "gpu_power_w": 250.5,
        "gpu_energy_j": 12345.678, "gpu_sm_clock_hz": 1_410_000_000, "gpu_memory_clock_hz": 1_410_000_000,
        "gpu_throttle_reasons": 0x24,
    }  # fmt: skip
    nvml.close()


def test_what_a_gpu_does_not_tell_is_an_empty_cell(tmp_path: Path) -> None:
    silent = Nvml(Answers(nvmlDeviceGetHandleByUUID=Answers.NVMLError("Not Found")))
    assert silent.sample("GPU-2") == ("",) * len(COLUMNS)
    partly = Nvml(Answers(nvmlDeviceGetPowerUsage=Answers.NVMLError("Not Supported")))

    class More:
        columns = COLUMNS

        def sample(self) -> tuple[float | int | str, ...]:
            return partly.sample("GPU-1")

    Metrics(tmp_path / "metrics.csv", None, more=More()).close()
    rows = list(csv.DictReader((tmp_path / "metrics.csv").open()))
    assert rows
    assert all((row["gpu_power_w"], row["gpu_temperature_c"]) == ("", "64") for row in rows)


def test_reasons_have_words() -> None:
    assert reasons(0) == []
    assert reasons(0x24) == ["power cap by software", "too hot, by software"]
    assert reasons(0x1000) == ["reason 0x1000"]
    assert SLOWING & 0x1 == 0, "an idle GPU is not slowed down"
