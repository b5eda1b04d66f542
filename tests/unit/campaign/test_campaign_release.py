"""Hosts are released whatever fails beside it, and the verdict names what was done."""

import errno
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest

from e2c_dl.archive import layout
from e2c_dl.campaign import collect
from e2c_dl.campaign.campaign import Campaign
from e2c_dl.campaign.causes import Event
from e2c_dl.campaign.hosts.gather import Kept
from e2c_dl.campaign.interrupts import interruptible
from e2c_dl.campaign.last_steps import close, collected, release
from e2c_dl.errors import ArchiveError, EmulationError, Interrupted, TrainingError
from e2c_dl.testbeds import registry


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["logs are kept", "E2Clab's log is closed"])
def test_hosts_are_released_though_the_disk_is_full(tmp_path, monkeypatch, what):
    campaign = Campaign(
        console=Mock(),
        request=Mock(keep=False),
        archive=Mock(path=tmp_path),
        testbed=Mock(state_dir=tmp_path / "state"),
    )
    campaign.session = Mock()
    monkeypatch.setattr(collect, "keep_logs", full_disk if what == "logs are kept" else Mock())
    if what == "E2Clab's log is closed":
        campaign.scope.callback(full_disk)
    campaign.work_dir.mkdir(parents=True)
    campaign.fetch_dir.mkdir()
    (tmp_path / layout.RUN).touch()
    with pytest.raises(OSError, match="No space left"):
        release(campaign)
    campaign.testbed.release.assert_called_once_with(frozenset())
    assert not campaign.work_dir.exists() and not campaign.fetch_dir.exists()


def test_hosts_are_released_though_their_keys_cannot_be_read(tmp_path):
    campaign = Campaign(
        console=Mock(),
        request=Mock(keep=False),
        archive=Mock(path=tmp_path),
        testbed=Mock(state_dir=tmp_path / "state"),
    )
    campaign.testbed.secrets.side_effect = PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(OSError, match="Permission denied"):
        release(campaign)
    campaign.testbed.release.assert_called_once_with(frozenset())


def test_what_is_kept_is_on_record_though_there_was_no_room_for_that_at_first(tmp_path, monkeypatch):
    """Else `destroy` would take the run for one that is all in its archive, and remove what was kept."""
    monkeypatch.setenv(registry.STATE_VARIABLE, str(tmp_path / "state"))
    run = registry.begin("0a1b2c3d", scenario="s")
    kept = {"edge-1": Kept(host="edge-1", where="there", why="no room")}
    campaign = Campaign(console=Mock(), request=Mock(keep=False), archive=Mock(path=tmp_path / "a"), kept=kept)
    campaign.testbed = Mock(run_id=run.id)
    save = registry.save
    monkeypatch.setattr(registry, "save", full_disk)
    campaign.testbed.release.side_effect = lambda _: monkeypatch.setattr(registry, "save", save)  # what it removes
    with pytest.raises(OSError, match="No space left"):
        release(campaign)
    assert registry.load(run.id).details[registry.UNCOLLECTED] == {"edge-1": "there"}


@pytest.mark.parametrize(("trained", "order"), [(None, ["finalize", "network"]), (Mock(), ["network", "finalize"])])
def test_a_program_that_finalize_waits_for_has_its_network_until_then(tmp_path, trained, order):
    """One that the workflow starts and leaves: it would never end, and so would finalize."""
    done = []
    campaign = Campaign(console=Mock(), request=Mock(keep=False), archive=Mock(path=tmp_path), launched=True)
    campaign.scenario = Mock(trained=trained)
    campaign.scenario.topology.ranks = ()
    campaign.testbed = Mock(state_dir=tmp_path / "state", accesses=())
    campaign.testbed.end_emulation.side_effect = lambda: done.append("network") or ()
    campaign.session, campaign.watch, campaign.signs = Mock(), Mock(seen={}), Mock()
    campaign.watch.failure.return_value = campaign.signs.failure.return_value = None
    campaign.signs.silences.return_value = ()
    campaign.session.finalize_dir = tmp_path / "fetched"
    campaign.session.workflow.side_effect = done.append
    (tmp_path / layout.RUN).touch()
    collected(campaign)
    assert done == order


def test_where_the_archive_is_gone_the_verdict_is_what_was_seen_to_happen_and_not_what_followed(tmp_path: Path) -> None:
    relay = EmulationError("the relay gave no sign of life")
    campaign = Campaign(
        console=Mock(), request=Mock(), archive=Mock(path=tmp_path / "gone"), launched=True,
        failures=[("train", TrainingError("the workflow's launch failed: edge-1: it was asked to stop"))],
        events=[Event(error=relay, sentence=str(relay), at_s=1.0)],
    )  # fmt: skip
    with pytest.raises(ArchiveError):
        close(campaign)
    assert campaign.verdict is relay


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_too_late_is_named(number: signal.Signals) -> None:
    campaign = Campaign(console=Mock(), request=Mock(), archive=Mock(path=Path("runs/a")))
    with interruptible() as campaign.interrupts:
        signal.raise_signal(number)
    why = f"{number.name} came when training was over: the run is whole in runs/a"
    assert (type(campaign.verdict), str(campaign.verdict)) == (Interrupted, why)
