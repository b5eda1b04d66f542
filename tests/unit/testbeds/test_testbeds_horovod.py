"""The build of Horovod's wheel: what is asked of the machine first, where it is kept, what is said when it fails."""

from __future__ import annotations

import io
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds.horovod import build, recipe, wheels

COMPILER = {"cmake", "make", "c++"}


def of(
    path: str = sys.executable, torch: str | None = "2.13.0+cpu", missing: tuple[str, ...] = ()
) -> wheels.Interpreter:
    return wheels.Interpreter(path=path, python="cp311", platform="linux_x86_64", torch=torch, missing=missing)


def programs(folder: Path, *names: str) -> dict[str, str]:
    """An environment whose PATH has programs of these names, and no others."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(("missing", "package"), [("cmake", "cmake"), ("make", "make"), ("c++", "g++")])
def test_a_missing_program_is_named_with_its_package(tmp_path: Path, missing: str, package: str) -> None:
    with pytest.raises(
        InputError, match=rf"without {package.replace('+', '.')}: apt-get install {package.replace('+', '.')}"
    ):
        build.check(of(), programs(tmp_path, *COMPILER - {missing}))


def test_all_missing_programs_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"apt-get install cmake make g\+\+"):
        build.check(of(), programs(tmp_path))


def test_missing_packages_are_named_with_their_interpreter(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pip install numpy cffi"):
        build.check(of(missing=("numpy", "cffi")), programs(tmp_path, *COMPILER))


def test_this_interpreter_has_what_building_needs(tmp_path: Path) -> None:
    here = wheels.interpreter()
    build.check(here, programs(tmp_path, *COMPILER))
    assert here.python == f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert here.key.parts[2].startswith("torch-2.")


@pytest.mark.parametrize("torch", [None, "../../etc", ""])
def test_a_torch_that_cannot_name_a_folder_is_refused(torch: str | None) -> None:
    with pytest.raises(InputError, match="no torch there"):
        _ = of(torch=torch).key


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    for path in ("/bin/true", str(tmp_path / "absent")):
        with pytest.raises(InputError, match="--python"):
            wheels.interpreter(path)


def test_wheels_of_another_torch_or_python_are_not_taken(tmp_path: Path) -> None:
    folder = tmp_path / of(torch="2.12.0").key
    folder.mkdir(parents=True)
    wheel = folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    assert wheels.find(of(torch="2.12.0"), tmp_path) == wheel
    assert wheels.find(of(torch="2.13.0"), tmp_path) is None
    with pytest.raises(InputError, match="e2c-dl horovod build"):
        wheels.existing(of(torch="2.13.0"), tmp_path)


def test_one_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    wheel = tmp_path / of().key / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    assert build.build(of(path="/absent"), tmp_path, print, jobs=1) == wheel


def test_another_source_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    source = tmp_path / recipe.SOURCE
    source.write_bytes(b"something else")
    with pytest.raises(InputError, match="SHA-256"):
        build.build(of(), tmp_path / "cache", print, jobs=1, source=source)
    with pytest.raises(InputError, match="cannot be read"):
        build.build(of(), tmp_path / "cache", print, jobs=1, source=tmp_path / "absent")
    assert not list((tmp_path / "cache").rglob("building-horovod-*"))


def test_a_build_that_fails_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real build, of a source distribution whose own build fails."""
    source = tmp_path / recipe.SOURCE
    with tarfile.open(source, "w:gz") as archive:
        for name, text in {
            "setup.py": "raise SystemExit('fatal: it has no mind to')\n",
            "PKG-INFO": "Name: horovod\n",
        }.items():
            entry = tarfile.TarInfo(f"horovod-{recipe.VERSION}/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    monkeypatch.setattr(recipe, "SHA256", build.hashlib.sha256(source.read_bytes()).hexdigest())
    with pytest.raises(TestbedError, match="building Horovod failed: .*fatal: it has no mind to"):
        build.build(of(), tmp_path / "cache", lambda _: None, jobs=1, source=source)
    assert not list((tmp_path / "cache").rglob("*.whl")) and not list((tmp_path / "cache").rglob("building-horovod-*"))


def test_what_does_not_start_is_not_kept(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho cannot load it >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(TestbedError, match="does not start: cannot load it; nothing was kept"):
        build._try(of(path=str(fake)), tmp_path / "horovod.whl", tmp_path / "tried")


def test_the_recipe_leaves_out_settings_of_other_builds() -> None:
    found = recipe.environment(Path("/t.cmake"), 3, {"HOROVOD_WITH_MPI": "1", "CMAKE_ARGS": "-G Ninja", "HOME": "/h"})
    assert found["HOME"] == "/h" and found["MAKEFLAGS"] == "-j3" and found["HOROVOD_WITHOUT_MPI"] == "1"
    assert "HOROVOD_WITH_MPI" not in found and "CMAKE_ARGS" not in found


def test_the_source_stands_where_its_path_is_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "+" in str(of().key)
    assert build.scratch_place(tmp_path) == tmp_path
    assert build.scratch_place(tmp_path / "a+b") == Path(build.tempfile.gettempdir())
    monkeypatch.setattr(build.tempfile, "tempdir", str(tmp_path / "c++"))
    with pytest.raises(InputError, match="--cache"):
        build.scratch_place(tmp_path / "a+b")
