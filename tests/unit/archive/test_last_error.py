"""What a worker's log ends in, where it left no outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    1 / 0\n'


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (f"warned\n{TRACEBACK}ZeroDivisionError: division by zero\n", "ZeroDivisionError: division by zero"),
        (f"{TRACEBACK}KeyError: 1\n\nDuring handling:\n\n{TRACEBACK}ValueError: 2\n", "ValueError: 2"),
        (f"{TRACEBACK}ValueError: a library's, told and handled\ngoes on\n", ""),
        ("UserWarning: slow\n", ""),
        ("", ""),
    ],
)
def test_the_error_that_a_log_ends_in(tmp_path: Path, log: str, said: str) -> None:
    assert HostRecords(tmp_path).last_error() == ""
    (tmp_path / layout.WORKER_LOG).write_text(log)
    assert HostRecords(tmp_path).last_error() == said
