"""The run's key is taken once, and only if nobody else could read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2c_dl.drivers.live.detached import KEY
from e2c_dl.drivers.live.key import take
from e2c_dl.errors import InputError

SECRET = "0123456789abcdef" * 4


def written(directory: Path, text: str = SECRET, mode: int = 0o600) -> Path:
    path = directory / KEY
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(text)
    return path


def test_it_is_gone_once_taken(tmp_path: Path) -> None:
    path = written(tmp_path, SECRET + "\n")
    assert take(tmp_path) == SECRET.encode()
    assert not path.exists()
    with pytest.raises(InputError, match=r"run.key: cannot be read: No such file .*; let the workflow's launch"):
        take(tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_one_that_others_may_read_is_no_secret(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, mode=mode)
    with pytest.raises(InputError, match=f"its mode is {mode:04o}") as refused:
        take(tmp_path)
    assert SECRET not in str(refused.value)
    assert not path.exists()


def test_a_short_one_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "secret")
    with pytest.raises(InputError, match="holds 6 bytes; draw a key of at least 32"):
        take(tmp_path)


def test_a_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(SECRET)
    (tmp_path / KEY).symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match="cannot be read"):
        take(tmp_path)
