"""Runs one program in a User-Mode Linux of its own, and always comes back.

::

    run(argv)  --- boots ---> linux.uml: init.sh -> argv          the host's files, read-only under an overlay in memory
               <-- status, stdout, stderr ---                     network: its own, with no way out
               <-- files in ``writable`` ---                      that directory is the host's own

Needs the Debian package user-mode-linux and no rights. Several may run side by side. The machine has one processor,
slow system calls (20 us), and counts CPU time in ticks of 10 ms, so that a gradient of 1 ms is measured as 0: assert
rates, delays and losses in it, never compute speed. It ends by itself after the time-out, also where whoever started it
was killed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.uml import registers
from benchmarks.uml.errors import UmlError

ROOT = Path(__file__).parents[2]
KERNEL = "linux.uml"
MODULES = Path("/usr/lib/uml/modules")
INIT = Path(__file__).with_name("init.sh")
MEMORY_MIB = 768
_SHARED_MEMORY = Path("/dev/shm")  # where the machine's memory is kept, if there is room
_GOING_DOWN_S = 20.0  # booting and going down, beside what the program itself may take


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a program in the machine came to."""

    status: int
    stdout: str
    stderr: str
    console: str
    wall_s: float


def missing() -> str | None:
    """Why no machine can be booted here; None if one can."""
    if shutil.which(KERNEL) is None:
        return "linux.uml is not here: install the Debian package user-mode-linux"
    if shutil.which("insmod", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        return "insmod is not here: install the Debian package kmod"
    if not list(MODULES.glob("*/kernel/net/sched/sch_netem.ko")):
        return f"{MODULES} has no sch_netem: install Debian's own package user-mode-linux"
    return registers.missing()


def run(
    argv: Sequence[str],
    *,
    text: str = "",
    timeout_s: float = 60.0,
    env: Mapping[str, str] | None = None,
    memory_mib: int = MEMORY_MIB,
    writable: Path | None = None,
) -> Done:
    """What ``argv`` came to, with ``text`` on its stdin and this project importable.

    ``writable``: a directory of the host in which it may write; what it writes anywhere else ends with the machine.

    Raises: UmlError if the machine did not boot or the program took longer than ``timeout_s``.
    """
    reason = missing()
    if reason is not None:
        raise UmlError(reason)
    begin = time.monotonic()
    # Short names: sockets lie in there.
    with tempfile.TemporaryDirectory(prefix="uml-") as name:
        shared = Path(name)
        _write_job(shared, argv, text, env or {})
        _boot(shared, timeout_s, memory_mib, writable)
        status = shared / "status"
        if not status.exists() or not status.read_text():
            raise UmlError(f"User-Mode Linux did not reach its program: {_last_words(shared)}")
        done = Done(
            status=int(status.read_text()),
            stdout=(shared / "stdout").read_text(),
            stderr=(shared / "stderr").read_text(),
            console=(shared / "console").read_text(errors="replace"),
            wall_s=time.monotonic() - begin,
        )
    if done.status in (124, 137):
        raise UmlError(
            f"the program took longer than {timeout_s:g} s: {shlex.join(argv)}; it said: {done.stderr[-500:]}"
        )
    return done


def _write_job(shared: Path, argv: Sequence[str], text: str, env: Mapping[str, str]) -> None:
    told = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **env}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in told.items())
    (shared / "job").write_text(f"{exports}cd {shlex.quote(str(ROOT))}\nexec {shlex.join(argv)}\n")
    (shared / "stdin").write_text(text)


def _boot(shared: Path, timeout_s: float, memory_mib: int, writable: Path | None) -> None:
    parameters = {
        "mem": f"{memory_mib}M",
        "rootfstype": "hostfs",
        "rootflags": "/",
        "init": str(INIT),
        "con": "null",
        "con0": "null,fd:1",
        "umid": shared.name,
        "uml_dir": str(shared / "m"),
        "panic": "-1",
        "UML_RUN": str(shared),
        "UML_SECONDS": f"{timeout_s:.0f}",
        **({} if writable is None else {"UML_WRITABLE": str(writable)}),
    }
    argv = [KERNEL, "ro", "quiet", "noreboot", *(f"{name}={value}" for name, value in parameters.items())]
    environ = {**os.environ, "TMPDIR": str(_memory_dir(shared, memory_mib))}
    if registers.needed():
        environ["LD_PRELOAD"] = str(registers.made(shared))
    (shared / "m").mkdir()
    with (shared / "console").open("wb") as console:
        process = subprocess.Popen(
            [*_before_others(), *argv],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s + _GOING_DOWN_S)
        except subprocess.TimeoutExpired as error:
            raise UmlError(f"User-Mode Linux did not end in time: {_last_words(shared)}") from error
        finally:
            with contextlib.suppress(ProcessLookupError):  # all of it has ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _before_others() -> list[str]:
    """What has a machine run when it has something to do, as its clock goes on while it waits: a processor, and root's
    priority on it. One processor, since kernel and programs of the machine are processes that hand over to each other,
    which takes ten times as long from one processor to another.
    """
    pinned = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0)))]
    return [*pinned, *(["chrt", "--rr", "1"] if os.geteuid() == 0 else [])]


def _memory_dir(shared: Path, memory_mib: int) -> Path:
    """Where programs may be mapped from, and as much fits as the machine has memory."""
    with contextlib.suppress(FileNotFoundError):
        facts = os.statvfs(_SHARED_MEMORY)
        if facts.f_bavail * facts.f_frsize > memory_mib * 2**20 and not facts.f_flag & os.ST_NOEXEC:
            return _SHARED_MEMORY
    return shared


def _last_words(shared: Path) -> str:
    console = shared / "console"
    text = console.read_text(errors="replace") if console.exists() else ""
    return " | ".join(text.split("\n")[-8:]) or "it said nothing"
