"""On which GPU a traced rank computes, as its torch says: once, whenever it begins to."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_ports_of_scripts import RANKS, Recording

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.tracing.samplers.devices import ASKED, EVERY_S, Devices, in_use


class Gpu:
    """torch.cuda, as far as it is asked."""

    begun = False

    def is_initialized(self) -> bool:
        return self.begun

    def current_device(self) -> int:
        return 3


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    found = Gpu()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found))
    return found


def device_of(folder: Path) -> object:
    facts = HostRecords(folder).facts()
    assert facts is not None
    return (facts.gpu or {}).get("device")


def test_one_that_is_used_before_ranks_meet_is_told_at_once(tmp_path: Path, gpu: Gpu) -> None:
    recording, devices = Recording(tmp_path), Devices()
    gpu.begun = True
    devices.on_ready(RANKS, recording)
    assert (device_of(tmp_path), recording.limitations) == ("cuda:3", [ASKED])
    devices.on_end()
    assert recording.limitations == [ASKED]


def test_one_that_is_used_later_is_told_then(tmp_path: Path, gpu: Gpu) -> None:
    recording, devices = Recording(tmp_path), Devices()
    devices.on_ready(RANKS, recording)
    assert devices._look() == EVERY_S
    assert device_of(tmp_path) is None
    gpu.begun = True
    assert devices._look() is None
    assert (device_of(tmp_path), recording.limitations) == ("cuda", [ASKED]), "which one, this thread does not know"
    devices.on_end()
    assert (device_of(tmp_path), recording.limitations) == ("cuda:3", [ASKED])


def test_one_that_is_used_at_last_is_told_at_the_end(tmp_path: Path, gpu: Gpu) -> None:
    recording, devices = Recording(tmp_path), Devices()
    devices.on_ready(RANKS, recording)
    gpu.begun = True
    devices.on_end()
    assert device_of(tmp_path) == "cuda:3"


def test_nothing_is_said_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    recording, devices = Recording(tmp_path), Devices()
    devices.on_ready(RANKS, recording)
    devices.on_end()
    assert (device_of(tmp_path), recording.limitations) == (None, [])
    monkeypatch.delitem(sys.modules, "torch")
    assert in_use() is None
