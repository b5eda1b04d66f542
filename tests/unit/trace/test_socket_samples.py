"""What connections told is written in time, and read back, damaged or not."""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

import msgspec
import pytest
from full_disks import small_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from socket_pairs import connected, cookie, send

from e2c_dl.errors import ArchiveError, TrainingError
from e2c_dl.trace.places import CONNECTIONS_RAW, Recorded, recorded
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.samples import (
    CONNECTION_KIND,
    RECORD_BYTES,
    SAMPLE_KIND,
    Connection,
    convert_samples,
    described,
    header,
    normalised,
    packed,
    read_samples,
)
from e2c_dl.trace.propagation.sockets import SocketSampler
from e2c_dl.trace.propagation.sockets.own import OwnSockets
from e2c_dl.trace.propagation.sockets.sampler import APART_S
from e2c_dl.trace.recording.log import Log, read_log

ITS_OWN = "127.0.0.9"  # other tests may have left connections of this process


def own(archive: Path) -> Recorded:
    """Its one host, which has a folder."""
    found = recorded(archive, "a")
    found.folder.path.mkdir(parents=True, exist_ok=True)
    return found


def raw(archive: Path) -> Path:
    """What its host samples into."""
    return own(archive).connections_raw.path


def sampling(archive: Path, rate_hz: float) -> SocketSampler:
    """One whose thread writes at once."""
    return SocketSampler(
        raw(archive), source=OwnSockets(ITS_OWN), rank=0, host="a", rate_hz=rate_hz, flush_every_s=0.001
    )


def test_a_thread_tells_which_connections_are_small_and_looks_at_them_itself(tmp_path: Path) -> None:
    with connected(at=ITS_OWN) as large, connected(at=ITS_OWN) as small:
        send(small, 100)
        with sampling(tmp_path, rate_hz=500.0) as sampler:
            slight, busy = {cookie(one) for one in small}, {cookie(one) for one in large}
            iterations = itertools.count()
            while not slight <= sampler._small or busy & sampler._small:  # a look may come while only one end has sent
                send(large, 100_000)
                sampler.iteration(next(iterations))
            send(small, 100)
        of_small = cookie(small[0])
    samples = read_samples(own(tmp_path))
    assert samples is not None
    raws = [raw for raw, of in zip(samples.raw, samples.cookie.tolist(), strict=True) if of == of_small]
    assert tcp_info.field(raws[-1], "bytes_sent") == 200, "nothing of it is lost"


def test_what_is_idle_before_training_is_looked_at_where_iterations_end(tmp_path: Path) -> None:
    with connected(at=ITS_OWN) as ring, connected(at=ITS_OWN) as rendezvous:
        send(rendezvous, 5000)
        with sampling(tmp_path, rate_hz=1.0) as sampler:
            while sampler._moved.get(cookie(rendezvous[0]).to_bytes(8, sys.byteorder)) is None:
                time.sleep(0.001)
            time.sleep(0.05)  # it has told by now, if it does before iterations have ended
            for iteration in range(4):
                sampler.iteration(iteration)
                send(ring, 100_000)
                time.sleep(2 * APART_S)
        of_ring = cookie(ring[0])
    samples = read_samples(own(tmp_path))
    assert samples is not None
    told = set(samples.iteration[samples.cookie == of_ring].tolist())
    assert {0, 1, 2, 3} <= told


def test_what_moved_is_written_at_boundaries(tmp_path: Path) -> None:
    with connected(at=ITS_OWN) as pair, connected(at=ITS_OWN):
        with SocketSampler(raw(tmp_path), source=OwnSockets(ITS_OWN), rank=3, host="edge-1", rate_hz=0) as sampler:
            for iteration in range(3):
                time.sleep(APART_S)
                sampler.iteration(iteration)
                send(pair, 1000 * (iteration + 1))
        assert sampler.cpu_s > 0
        samples = read_samples(own(tmp_path))
        assert samples is not None
        assert (samples.rank, samples.host, samples.lost) == (3, "edge-1", 0)
        of_first = samples.cookie == cookie(pair[0])
        raws = [raw for raw, own in zip(samples.raw, of_first, strict=True) if own]
        sent = [tcp_info.field(raw, "bytes_sent") for raw in raws]
        assert dict(zip(samples.iteration[of_first].tolist(), sent, strict=True)) == {-1: 0, 0: 1000, 1: 3000, 2: 6000}
        assert list(samples.time_ns) == sorted(samples.time_ns)
        raw_content = samples.raw
        convert_samples(own(tmp_path))
        again = read_samples(own(tmp_path))
        assert again is not None and again.raw == raw_content
        assert again.connections == samples.connections


def test_iterations_that_are_short_share_a_round(tmp_path: Path) -> None:
    with SocketSampler(raw(tmp_path), source=OwnSockets(ITS_OWN), rank=3, host="edge-1", rate_hz=0) as sampler:
        for iteration in range(1000):
            sampler.iteration(iteration)
        assert sampler.rounds < 900


def test_a_thread_writes_what_it_looked_at_in_time(tmp_path: Path) -> None:
    with (
        connected(at=ITS_OWN) as pair,
        SocketSampler(raw(tmp_path), source=OwnSockets(ITS_OWN), rank=0, host="a", rate_hz=1.0, flush_every_s=0.01),
    ):
        send(pair, 1000)
        while not any(tcp_info.field(raw, "bytes_sent") == 1000 for raw in _written(tmp_path)):
            time.sleep(0.001)  # longer than its looks are apart


def _written(archive: Path) -> tuple[bytes, ...]:
    found = read_samples(own(archive))
    return () if found is None else found.raw


def test_a_thread_samples_between_boundaries(tmp_path: Path) -> None:
    with (
        connected(at=ITS_OWN) as pair,
        SocketSampler(raw(tmp_path), source=OwnSockets(ITS_OWN), rank=0, host="a", rate_hz=500.0) as sampler,
    ):
        while sampler.rounds < 20:
            send(pair, 10)
    samples = read_samples(own(tmp_path))
    assert samples is not None and len(samples.raw) > 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_writes_nothing(tmp_path: Path) -> None:
    with (
        connected(at=ITS_OWN) as pair,
        SocketSampler(raw(tmp_path), source=OwnSockets(ITS_OWN), rank=0, host="a", rate_hz=0) as sampler,
    ):
        child = os.fork()
        if not child:
            send(pair, 10)
            sampler.iteration(7)
            sampler.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    samples = read_samples(own(tmp_path))
    assert samples is not None and 7 not in samples.iteration


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no-folder/connections\.bin"):
        SocketSampler(tmp_path / "no-folder" / CONNECTIONS_RAW, rank=0, host="a")


def test_after_a_full_disk_nothing_is_looked_at_and_nothing_kept(tmp_path: Path) -> None:
    failures: list[TrainingError] = []
    with small_files(4096), connected(at=ITS_OWN) as pair:
        sampler = SocketSampler(
            raw(tmp_path),
            source=OwnSockets(ITS_OWN),
            rank=0,
            host="a",
            rate_hz=0,
            flush_every_s=0.001,
            on_failure=failures.append,
        )
        while not failures:
            send(pair, 10)
            time.sleep(APART_S)
            sampler.iteration(0)
    before = sampler.rounds
    for number in range(5):
        time.sleep(APART_S)
        sampler.iteration(number)
    assert sampler.rounds == before
    sampler.close()
    assert len(failures) == 1


record = st.tuples(
    st.sampled_from([SAMPLE_KIND, CONNECTION_KIND, 3]),
    st.binary(max_size=60)
    | st.builds(packed, st.integers(-(2**63), 2**63 - 1), st.just(1), st.just(0), st.just(2), st.binary(max_size=300))
    | st.just(b'{"cookie": 1, "local": ["10.0.0.1", 1], "remote": ["::ffff:10.0.0.2", 2]}')
    | st.just(b'{"cookie": 1, "local": ["nowhere", 1], "remote": ["::ffff:10.0.0.2", 2]}'),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.lists(record, max_size=6))
def test_any_records_are_read_and_what_is_none_is_counted(tmp_path: Path, records: list[tuple[int, bytes]]) -> None:
    with Log(raw(tmp_path), header(0, "a"), flush_every_s=60) as log:
        for kind, payload in records:
            log.append(kind, payload)
    samples = read_samples(own(tmp_path))
    assert samples is not None
    assert len(samples.raw) + samples.lost <= sum(1 + len(payload) for _, payload in records)
    if not samples.connections:
        assert len(samples.raw) == 0
    convert_samples(own(tmp_path))
    again = read_samples(own(tmp_path))
    assert again is not None and (again.raw, again.lost) == (samples.raw, samples.lost)
    own(tmp_path).connections.path.unlink()


def test_records_of_a_kind_share_frames_and_one_that_is_cut_off_costs_itself(tmp_path: Path) -> None:
    ends = Connection(cookie=1, local=("10.0.0.1", 1), remote=("10.0.0.2", 2))
    two = packed(1, 1, 0, 2, b"first") + packed(2, 1, 0, 2, b"second")
    with Log(raw(tmp_path), header(0, "a"), flush_every_s=60, record_bytes=RECORD_BYTES) as log:
        log.append(CONNECTION_KIND, described(ends))
        log.append(CONNECTION_KIND, described(msgspec.structs.replace(ends, cookie=2)))
        log.extend(SAMPLE_KIND, [two, packed(3, 2, 0, 2, b"third")[:-1]])
    assert len(read_log(raw(tmp_path)).frames) == 2
    samples = read_samples(own(tmp_path))
    assert samples is not None
    assert (samples.raw, samples.lost, set(samples.connections)) == ((b"first", b"second"), 1, {1, 2})


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    assert read_samples(own(tmp_path)) is None
    (tmp_path / "connections").mkdir()
    own(tmp_path).connections.path.write_bytes(b"PAR1")
    with pytest.raises(ArchiveError, match=r"connections/a\.parquet"):
        read_samples(own(tmp_path))


@pytest.mark.parametrize("address", ["nowhere", "1.2.3", "::ffff:1.2.3"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        normalised(address)
