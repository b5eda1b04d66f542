"""The build of Horovod's wheel: by pip, in a folder of its own; kept only if what came out of it starts.

::

    what is missing? -> source (PyPI's, or a file) of a known SHA-256 -> compiled -> tried -> into the cache in one step
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2c_dl import atomic_write
from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds.followed import Tell, followed
from e2c_dl.testbeds.horovod import recipe
from e2c_dl.testbeds.horovod.wheels import Interpreter, find

_PROGRAMS = {"cmake": "cmake", "make": "make", "c++": "g++"}  # program -> Debian package
_LEAST_FREE_BYTES = 1 << 30  # objects and libraries that are not yet stripped
_KEPT_LINES = 200
_PREFIX = "building-horovod-"
_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
_FAULT = re.compile(r"\berror\b|\bfatal\b", re.IGNORECASE)
_OFFLINE = ("Failed to establish a new connection", "No matching distribution", "Temporary failure in name resolution")
_OF_PIP = ("error: subprocess-exited-with-error", "note:", "error: metadata-generation-failed", "ERROR: Failed")


def build(
    of: Interpreter, cache: Path, tell: Tell, *, jobs: int, source: Path | None = None, anew: bool = False
) -> Path:
    """The wheel for ``of`` in ``cache``: built, unless it is there already and not wanted ``anew``.

    ``source`` is its source distribution, where PyPI cannot be reached. Two builds for the same take turns.
    Raises: InputError if something is missing that building needs, TestbedError with what the build said last.
    """
    place = cache / of.key
    place.mkdir(parents=True, exist_ok=True)
    with _alone(place):
        found = None if anew else find(of, cache)
        if found is not None:
            return found
        check(of, os.environ)
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=scratch_place(cache)) as scratch:
            wheel = _built(of, Path(scratch), tell, jobs, source)
            tell("trying what was built")
            _try(of, wheel, Path(scratch) / "tried")
            with atomic_write.whole(place / wheel.name) as fresh:
                shutil.copyfile(wheel, fresh)
        return place / wheel.name


def scratch_place(cache: Path) -> Path:
    """Where to build: in ``cache``, else where temporary files are. Raises: InputError if neither will do.

    Horovod's CMake files take the path of its source for a regular expression: with a plus sign in it, as in the name
    of most builds of torch, the library ends up where no wheel has it.
    """
    place = next((path for path in (cache, Path(tempfile.gettempdir())) if _PLAIN.fullmatch(str(path))), None)
    if place is None:
        raise InputError(
            f"{cache}: Horovod builds only below paths of letters, digits and '/._-'; name one with --cache"
        )
    return place


def check(of: Interpreter, environ: Mapping[str, str]) -> None:
    """Does nothing. Raises: InputError with all that is missing, and how to install it."""
    path = environ.get("PATH", os.defpath)
    packages = [package for program, package in _PROGRAMS.items() if shutil.which(program, path=path) is None]
    if packages:
        hint = "; CMake alone also comes by pip install cmake" if packages == ["cmake"] else ""
        raise InputError(
            f"Horovod cannot be compiled without {', '.join(packages)}: apt-get install {' '.join(packages)}{hint}"
        )
    if of.missing:
        raise InputError(
            f"{of.path}: Horovod is built with {', '.join(of.missing)}; {of.path} -m pip install {' '.join(of.missing)}"
        )


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _built(of: Interpreter, scratch: Path, tell: Tell, jobs: int, source: Path | None) -> Path:
    free = shutil.disk_usage(scratch).free
    if free < _LEAST_FREE_BYTES:
        raise InputError(
            f"{scratch.parent}: {free >> 20} MiB free, building takes {_LEAST_FREE_BYTES >> 20}; "
            "make room, or name another with --cache"
        )
    toolchain, wanted = scratch / "toolchain.cmake", scratch / "requirement.txt"
    toolchain.write_text(recipe.TOOLCHAIN)
    wanted.write_text(recipe.requirement())
    links = ["--no-index", "--find-links", str(_checked(source, scratch))] if source is not None else []
    argv = [of.path, "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-build-isolation", "--no-binary", "horovod"]
    argv += ["--no-cache-dir", "--require-hashes", *links, "--wheel-dir", str(scratch), "--requirement", str(wanted)]
    environ = recipe.environment(toolchain, jobs, os.environ) | {"TMPDIR": str(scratch)}
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environ,
        start_new_session=True,  # what ends the wait for it ends the compilers too
        cwd=scratch,  # what lies in the working directory would be imported before what is installed
    )
    last = followed(process, process.stdout, tell, _KEPT_LINES)
    if process.returncode:
        raise TestbedError(_why(last))
    return next(scratch.glob("horovod-*.whl"))


def _checked(source: Path, scratch: Path) -> Path:
    """A folder that holds ``source`` under its own name. Raises: InputError if it is something else."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise InputError(
            f"{source}: cannot be read: {error.strerror}; name the file {recipe.SOURCE} of PyPI"
        ) from error
    if hashlib.sha256(content).hexdigest() != recipe.SHA256:
        raise InputError(f"{source}: is not {recipe.SOURCE} of PyPI: its SHA-256 is another; download it again")
    folder = scratch / "source"
    folder.mkdir()
    (folder / recipe.SOURCE).write_bytes(content)
    return folder


def _why(said: list[str]) -> str:
    """One line: the first fault that the build named, and what to do."""
    if any(offline in line for line in said for offline in _OFFLINE):
        return (
            f"horovod {recipe.VERSION}: pip found no source distribution; is PyPI reachable? "
            f"else download {recipe.SOURCE} elsewhere, and name it with --source"
        )
    faults = [line for line in said if _FAULT.search(line) and not line.startswith(_OF_PIP)]
    first = (faults or said or ["no output"])[0]
    return f"building Horovod failed: {first[:300]}; --verbose shows all that the build says"


def _try(of: Interpreter, wheel: Path, folder: Path) -> None:
    """Does nothing. Raises: TestbedError if what was built does not start."""
    put = [of.path, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(wheel)]
    for argv in (put, [of.path, "-c", recipe.TRIED]):
        environ = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environ, cwd=folder.parent)
        if done.returncode:
            last = ((done.stderr or done.stdout).strip().splitlines() or ["no output"])[-1]
            raise TestbedError(f"Horovod was built for torch {of.torch}, but does not start: {last}; nothing was kept")
