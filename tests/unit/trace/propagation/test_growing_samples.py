"""What sockets tell is read while it is written, and only the last iterations of it are kept."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from told_sockets import counted, write_told

from e2c_dl.errors import ArchiveError
from e2c_dl.trace.places import recorded
from e2c_dl.trace.propagation.counters import decoded
from e2c_dl.trace.propagation.growing_samples import GrowingSamples
from e2c_dl.trace.propagation.samples import (
    RECORD_BYTES,
    SAMPLE_KIND,
    Connection,
    packed,
    read_samples,
)
from e2c_dl.trace.recording.log import Log

ITERATIONS, COOKIES = 10, (1, 2)


def content(folder: Path) -> bytes:
    """A connections.bin of two connections, looked at as each iteration ends; both send a segment more in each."""
    path = recorded(folder, "a").connections_raw.path
    path.parent.mkdir(parents=True)
    ends = [Connection(cookie=each, local=("10.0.0.1", each), remote=("10.0.0.2", each)) for each in COOKIES]
    looks = itertools.product(range(-1, ITERATIONS), COOKIES)
    told = ((100 * (number + 1) + cookie, cookie, number, counted(segments_out=number + 1)) for number, cookie in looks)
    write_told(path, 0, "a", ends, told)
    return path.read_bytes()


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_in_pieces_it_is_what_it_is_at_rest(tmp_path: Path, piece: int) -> None:
    written, growing = content(tmp_path), GrowingSamples("a")
    for begin in range(0, len(written), piece):
        growing.add(written[begin : begin + piece])
    came, whole = growing.since(0), read_samples(recorded(tmp_path, "a"))
    assert came is not None and whole is not None
    assert (came.raw, came.connections, came.lost) == (whole.raw, whole.connections, 0)
    assert came.iteration.tolist() == whole.iteration.tolist()


def test_of_what_is_forgotten_the_last_is_kept_from_which_counters_rise(tmp_path: Path) -> None:
    growing = GrowingSamples("a")
    growing.add(content(tmp_path))
    growing.forget_before(7)
    kept = growing.since(7)
    assert kept is not None
    assert kept.iteration.tolist() == [-1, -1, 0, 0, 1, 1, 2, 2]
    assert np.unique(decoded(kept.raw)["segments_out"]).tolist() == [7, 8, 9, 10]
    growing.forget_before(ITERATIONS)  # nothing is of it yet
    assert growing.since(ITERATIONS) is not None


def test_without_a_word_there_is_nothing_and_what_is_no_header_is_refused(tmp_path: Path) -> None:
    assert GrowingSamples("a").since(0) is None
    growing = GrowingSamples("edge-1")
    path = tmp_path / "none"
    with Log(path, {"rank": "none"}, flush_every_s=60, record_bytes=RECORD_BYTES) as log:
        log.append(SAMPLE_KIND, packed(1, 1, 0, 2, b""))
    growing.add(path.read_bytes())
    with pytest.raises(ArchiveError, match="edge-1: header of what its sockets told"):
        growing.since(0)
