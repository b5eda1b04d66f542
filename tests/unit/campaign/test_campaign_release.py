"""Hosts are released whatever fails beside it."""

import errno
from unittest.mock import Mock

import pytest

from e2c_dl.campaign import collect
from e2c_dl.campaign.campaign import Campaign
from e2c_dl.campaign.last_steps import release


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["logs are kept", "E2Clab's log is closed"])
def test_hosts_are_released_though_the_disk_is_full(tmp_path, monkeypatch, what):
    campaign = Campaign(console=Mock(), request=Mock(keep=False), archive=Mock(path=tmp_path), testbed=Mock())
    campaign.session = Mock()
    monkeypatch.setattr(collect, "keep_logs", full_disk if what == "logs are kept" else Mock())
    if what == "E2Clab's log is closed":
        campaign.scope.callback(full_disk)
    campaign.work_dir.mkdir()
    with pytest.raises(OSError, match="No space left"):
        release(campaign)
    campaign.testbed.release.assert_called_once_with(frozenset())
    assert not campaign.work_dir.exists()
