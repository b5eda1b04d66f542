"""Unpacking of what a host sent: whatever it is, what is whole is kept, and what is not is told in one line."""

import gzip
import io
import os
import random
import tarfile

import pytest

from e2c_dl.archive.unpack import unpack
from e2c_dl.errors import ArchiveError

NAMES = ("spans.bin", "facts.json", "worker.log")
CONTENT = {"facts.json": b'{"format": 2}', "spans.bin": random.Random(3).randbytes(200_000), "worker.log": b"done\n"}


def packed(tmp_path, members=(), damage=lambda content: content, content=CONTENT):
    """A packed file of ``content``, then ``members``, its bytes changed by ``damage``; the folder to unpack into."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size, info.mtime = len(data), 1.5  # no whole second: a header of its own tells it
            tar.addfile(info, io.BytesIO(data))
        for member in members:
            tar.addfile(member)
    file = tmp_path / "trainer-0.tar.gz"
    file.write_bytes(damage(gzip.compress(plain.getvalue(), mtime=0)))
    into = tmp_path / "edge-1"
    into.mkdir()
    return file, into


def stands(into):
    return {path.name: path.read_bytes() for path in into.iterdir()}


def link(name, target):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def test_files_that_were_asked_for_stand_there_and_no_others(tmp_path):
    file, into = packed(tmp_path, content={**CONTENT, "other": b"x", "../above": b"x", "sub/facts.json": b"x"})
    found = unpack(file, into, NAMES)
    assert set(found.names) == set(CONTENT) and found.damage is None
    assert stands(into) == CONTENT and not (tmp_path / "above").exists()


def test_a_packed_file_that_is_cut_off_leaves_what_came_before_and_what_grows_up_to_there(tmp_path):
    file, into = packed(tmp_path, damage=lambda content: content[: len(content) // 2])
    found = unpack(file, into, NAMES)
    assert found.damage == (
        "trainer-0.tar.gz: it is cut off; kept of it: facts.json, spans.bin up to there"
    ) and found.names == ("facts.json", "spans.bin")
    left = stands(into)
    assert left["facts.json"] == CONTENT["facts.json"] and CONTENT["spans.bin"].startswith(left["spans.bin"])
    assert len(left["spans.bin"]) > 90_000


def test_half_a_file_of_another_kind_is_not_kept(tmp_path):
    content = {"facts.json": random.Random(1).randbytes(9000)}
    file, into = packed(tmp_path, damage=lambda content: content[:4000], content=content)
    assert unpack(file, into, NAMES) == ((), "trainer-0.tar.gz: it is cut off; kept of it: nothing")
    assert stands(into) == {}


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda content: content[:-8] + b"\1\2\3\4" + content[-4:], "CRC check failed"),
        (lambda content: content[:-4] + b"\1\2\3\4", "Incorrect length"),
        (lambda content: content[:-3], "cut off"),
        (lambda content: content + b"more", "Not a gzipped file"),
        (lambda content: content + gzip.compress(b"more"), "goes on after its end"),
    ],
)
def test_damage_at_the_end_is_found_and_everything_kept(tmp_path, damage, why):
    file, into = packed(tmp_path, damage=damage)
    found = unpack(file, into, NAMES)
    assert why in found.damage and set(found.names) == set(CONTENT) and stands(into) == CONTENT


def test_what_is_no_packed_file_at_all_is_told(tmp_path):
    file, into = packed(tmp_path, damage=lambda content: b"<html>not found</html>")
    assert unpack(file, into, NAMES).damage.startswith("trainer-0.tar.gz: it is damaged (Not a gzipped file")
    file.write_bytes(b"")
    assert unpack(file, into, NAMES).damage.startswith("trainer-0.tar.gz: it is cut off")
    file.write_bytes(gzip.compress(b"x" * 5000))
    assert unpack(file, into, NAMES).damage.startswith("trainer-0.tar.gz: it is damaged (invalid header)")


@pytest.mark.parametrize("odd", ["fifo", "link", "nothing"])
def test_a_packed_file_that_is_odd_is_not_waited_for(tmp_path, odd):
    file, into = packed(tmp_path)
    file.rename(tmp_path / "target")
    if odd == "fifo":
        os.mkfifo(file)
    elif odd == "link":
        file.symlink_to(tmp_path / "target")
    found = unpack(file, into, NAMES)
    assert found.names == () and str(file) in found.damage and "\n" not in found.damage


def test_links_and_other_odd_members_are_left_out_and_told(tmp_path):
    file, into = packed(
        tmp_path, [link("worker.log", "/etc/passwd"), link("elsewhere", "/")], content={"facts.json": b"{}"}
    )
    found = unpack(file, into, NAMES)
    assert found == (("facts.json",), "trainer-0.tar.gz: worker.log is no plain file; kept of it: facts.json")
    assert stands(into) == {"facts.json": b"{}"}


def test_nothing_is_written_through_a_link_that_stands_there(tmp_path):
    file, into = packed(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (into / "facts.json").symlink_to(victim)
    assert unpack(file, into, NAMES).damage is None
    assert victim.read_text() == "mine" and stands(into) == CONTENT and not (into / "facts.json").is_symlink()


def test_no_more_than_the_limit_is_unpacked(tmp_path):
    file, into = packed(tmp_path, content={"facts.json": b"{}", "spans.bin": bytes(3 << 20), "worker.log": b"x"})
    found = unpack(file, into, NAMES, limit_bytes=1 << 20)
    assert found.damage == (
        "trainer-0.tar.gz: it holds more than 1.00 MiB, which no host leaves; kept of it: facts.json"
    )
    assert stands(into) == {"facts.json": b"{}"}


@pytest.mark.parametrize("size", [1 << 60, -512])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE])
def test_a_size_that_is_claimed_is_not_believed(tmp_path, size, kind):
    member = tarfile.TarInfo("facts.json")
    member.type = kind
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (b"\x80" if size > 0 else b"\xff") + (size % (1 << 88)).to_bytes(11, "big")
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:512]) + 8 * 32)
    file, into = packed(tmp_path, damage=lambda _: gzip.compress(bytes(header) + bytes(1 << 20)))
    assert unpack(file, into, NAMES, limit_bytes=1 << 19).damage
    assert stands(into) == {}


def test_a_folder_that_cannot_be_written_is_an_error_of_its_own(tmp_path):
    file, into = packed(tmp_path)
    into.rmdir()
    with pytest.raises(ArchiveError, match=r"edge-1: cannot be written: No such file"):
        unpack(file, into, NAMES)


def test_whatever_bytes_are_damaged_nothing_else_is_raised_and_what_is_said_to_be_whole_is(tmp_path):
    file, into = packed(tmp_path)
    whole, draw = file.read_bytes(), random.Random(7)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        file.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(len(damaged))])])
        for left in into.iterdir():
            left.unlink()
        found = unpack(file, into, NAMES)
        assert set(stands(into)) == set(found.names)
        if found.damage is None:
            assert stands(into) == CONTENT
        else:
            assert found.damage.startswith("trainer-0.tar.gz: it ") and "\n" not in found.damage


def test_a_name_for_which_a_header_has_no_room_is_read_as_gnu_tar_writes_it(tmp_path):
    name, plain = f"node-1_0/{'x' * 120}.pt.trace.json", io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for each in (name, "facts.json"):
            info = tarfile.TarInfo(f"./{each}")
            info.size = 2
            tar.addfile(info, io.BytesIO(b"{}"))
    (tmp_path / "node-1_0").mkdir()
    (tmp_path / "packed.tar.gz").write_bytes(gzip.compress(plain.getvalue()))
    assert unpack(tmp_path / "packed.tar.gz", tmp_path, (name, "facts.json")) == ((name, "facts.json"), None)
    assert (tmp_path / name).read_bytes() == b"{}"
