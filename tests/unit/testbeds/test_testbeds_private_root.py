"""What a host's root is made of, as values."""

from pathlib import Path

from e2c_dl.testbeds.this_machine import private_root
from e2c_dl.testbeds.this_machine.private_root import PrivateRoot, mounted

_MOUNTINFO = r"""
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:20 / /proc rw - proc proc rw
23 21 8:1 / /home rw shared:1 - ext4 /dev/sda1 rw
24 23 8:2 / /home/my\040data rw - xfs /dev/sdb rw
"""


def test_only_ordinary_file_systems_below_the_root_are_overlaid() -> None:
    assert list(mounted(_MOUNTINFO.strip())) == [Path("/home"), Path("/home/my data")]


def test_what_is_empty_lies_above_the_layers_and_below_what_is_seen_in_it() -> None:
    root = PrivateRoot(layers=(Path("/"),), fresh=(Path("/tmp"),), seen=(Path("/tmp/venv"),))
    lines = [line.split()[:3] for line in root.texts(Path("/run/x"), "")["layers"].splitlines()]
    assert lines == [
        ["none", "/sys/root", "overlay"],
        ["/sys/fresh/0", "/sys/root/tmp", "none"],
        ["none", "/sys/root/tmp/venv", "overlay"],
    ]


def test_what_options_of_a_mount_cannot_spell_is_left_to_be_shown_read_only() -> None:
    texts = PrivateRoot(layers=(Path("/"), Path("/a,b"))).texts(Path("/run/x"), "")
    assert "/a,b" not in texts["layers"]
    assert texts["paths"] == "/\n/a,b\n"


def test_commands_are_quoted() -> None:
    texts = PrivateRoot(files=(Path("/it's"),), bare=(Path("/$(x)"),)).texts(Path("/run/a b"), "")
    assert "'/sys/root/$(x)'" in texts["root"] and "'/run/a b/layers'" in texts["root"]
    assert """'/it'"'"'s'""" in texts["root"]


def test_a_fresh_directory_that_leads_to_nothing_needed_is_empty(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "venv").mkdir(parents=True)
    made = private_root.of_machine(home, [home / "venv"], root=True)
    assert any(home.is_relative_to(path) for path in made.fresh) and home / "venv" in made.seen
    whole = private_root.of_machine(home, [home], root=True)
    assert home not in whole.fresh
