"""Programs on hosts that are up: the one way in, what is asked and what is answered.

::

    ssh_argv, enter, enter_network, python      command lines only: nothing is started
    said(access, *argv) -> text                 run to its end; what it printed, as for `e2c-dl logs`
    answer(access, argv, text) -> Answer        run to its end; JSON back, or why there is none
    on_all(accesses, each) -> name -> result    side by side; no host waits for another
    ask(access, ["-m", "a.module"], {...})      a module of this package, JSON both ways; raises, naming the host

The way is SSH, as Ansible goes, or straight into the host's namespaces where it shares this machine. Hosts of an
ordinary user are reached from the run's own network: from outside of it, ssh goes in there first. Whoever enters
namespaces from outside has no capabilities in them, so from outside all ways are over ssh: its sessions have.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from e2c_dl.errors import EmulationError, TestbedError
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.host_keys import refusal, ssh_options
from e2c_dl.testbeds.this_machine import rootless

R = TypeVar("R")

ANSWER_S = 300.0
_SILENT = "did not answer within {:g} s; is it reachable?"
_AT_ONCE = 32  # connections
_PAUSE_S = 0.05

_started_by: ContextVar[set[subprocess.Popen[str]]] = ContextVar("started_by")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one host said: ``value``, or why there is none."""

    value: Any = None
    failure: str | None = None

    def checked(self, access: Access, error: type[Exception] = EmulationError) -> Any:
        """``value``. Raises: ``error``, naming the host."""
        if self.failure is not None:
            raise error(f"host {access.name}: {self.failure}")
        return self.value


def ask(access: Access, words: Sequence[str], request: Mapping[str, Any], timeout_s: float = ANSWER_S) -> Any:
    """What Python with ``words`` answers to ``request``. Raises: EmulationError with what it said.

    ask(access, ["-m", "e2c_dl.emulation.measuring.prober", "measure"], {"port": 4711, "how": "quick"})
    """
    return answer(access, python(access, *words), json.dumps(request), timeout_s).checked(access)


def said(access: Access, *argv: str) -> str:
    """What ``argv`` prints on the host, run over SSH; what it complains of if that is nothing, or why it is silent."""
    try:
        done = _ran(ssh_argv(access, *argv), "", ANSWER_S)
    except subprocess.TimeoutExpired:
        return _SILENT.format(ANSWER_S)
    return done.stdout or done.stderr


def answer(access: Access, argv: Sequence[str], text: str, timeout_s: float) -> Answer:
    """What ``argv``, a way into the host, answers as JSON to ``text`` on its input; killed after ``timeout_s``."""
    try:
        done = _ran(argv, text, timeout_s)
    except subprocess.TimeoutExpired:
        return Answer(failure=_SILENT.format(timeout_s))
    except FileNotFoundError:
        return Answer(failure=f"there is no {argv[0]} on this machine; apt-get install openssh-client util-linux")
    return read(access, done.stdout, done.stderr, done.returncode)


def read(access: Access, out: str, error: str, status: int) -> Answer:
    """The JSON in ``out``; why there is none, from ``error``, its standard error, or else the exit status."""
    try:
        value = json.loads(out)
    except ValueError:
        value = None
    if isinstance(value, Mapping) and "error" in value:  # our own modules say so, whatever status they end with
        return Answer(failure=str(value["error"]))
    if status == 0 and value is not None:
        return Answer(value=value)
    why = refusal(access.host_keys, access.address, access.port, error) or " ".join(error.split()[-40:])
    # a .bashrc that prints is in the way of everything that talks over ssh
    strange = f"answered something else: {out.strip()[:80]!r}; does its shell greet?" if out.strip() else ""
    return Answer(failure=why or strange or f"its program ended with status {status}")


def on_all(accesses: Sequence[Access], each: Callable[[Access], R]) -> dict[str, R]:
    """host -> what ``each`` returns for it; all have ended when one of them raises."""
    with side_by_side(_AT_ONCE) as pool:
        found = [pool.submit(each, access) for access in accesses]
        wait(found)
        return {access.name: future.result() for access, future in zip(accesses, found, strict=True)}


@contextmanager
def side_by_side(at_once: int) -> Iterator[ThreadPoolExecutor]:
    """So many threads that ask hosts. What ends the wait for them, as Ctrl-C does, ends the programs they wait for."""
    started: set[subprocess.Popen[str]] = set()
    # threads are enough: each waits for a process of its own
    with ThreadPoolExecutor(max_workers=at_once, initializer=_started_by.set, initargs=(started,)) as pool:
        try:
            yield pool
        except BaseException:
            over = threading.Event()
            threading.Thread(target=_end, args=(started, over), daemon=True).start()
            pool.shutdown(cancel_futures=True)
            over.set()
            raise


def _end(started: set[subprocess.Popen[str]], over: threading.Event) -> None:
    while not over.wait(_PAUSE_S):  # again and again: a thread may just have been starting its program
        for process in tuple(started):
            process.kill()


def _ran(argv: Sequence[str], text: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run``, but ``side_by_side`` can end it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, text=True, errors="replace", stdin=pipe, stdout=pipe, stderr=pipe) as process:
        started = _started_by.get(set())
        started.add(process)
        try:
            out, error = process.communicate(text, timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
        finally:
            started.discard(process)
    return subprocess.CompletedProcess(argv, process.returncode, out, error)


def python(access: Access, *words: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Command line that runs Python with ``words``: in the host's network if it is of this machine, else over SSH.

    ``environ`` goes along over SSH alone: what is started here has this process's environment.
    """
    if access.netns_pid is not None:
        return enter_network(access, [sys.executable, *words])  # files are this machine's: so is Python
    # by env: sshd takes no variables of a client unless its AcceptEnv names them
    mark = ["env", *(f"{name}={value}" for name, value in environ.items())] if environ else []
    return ssh_argv(access, *mark, access.python, *words)


def ssh_argv(access: Access, *argv: str) -> list[str]:
    """Command line that runs ``argv`` on the host, arguments kept apart; without ``argv``, an interactive shell."""
    way_in = rootless.way_in(access.through_pid)
    ssh = [
        "ssh",
        *ssh_options(access.host_keys, access.jump, access.keyfile),
        "-i",
        access.keyfile,
        "-p",
        str(access.port),
    ]
    target = [*way_in, *ssh, f"{access.user}@{access.address}"]
    return [*target, "--", shlex.join(argv)] if argv else target  # a shell over there splits what ssh joins


def enter(access: Access, argv: Sequence[str]) -> list[str]:
    """Command line that runs ``argv`` in all of the host's namespaces, as the host's user, without ssh.

    It ends with the host. It does not run under the host's CPU quota, which is inherited from sshd.
    Raises: TestbedError if the host is not of this machine.
    """
    if _from_outside(access):
        return ssh_argv(access, *argv)
    # without --user: inside, they belong to the user namespace that one is in already
    return ["nsenter", *_target(access), "--mount", "--uts", "--ipc", "--net", "--pid", "--", *argv]


def enter_network(access: Access, argv: Sequence[str]) -> list[str]:
    """As ``enter``, but only into its network: files, processes and programs are this machine's own."""
    if _from_outside(access):
        return ssh_argv(access, *argv)
    return ["nsenter", *_target(access), "--net", "--", *argv]


def _from_outside(access: Access) -> bool:
    return access.through_pid is not None and rootless.outside(access.through_pid)


def _target(access: Access) -> tuple[str, str]:
    if access.netns_pid is None:
        raise TestbedError(f"host {access.name}: it has no namespaces on this machine to enter; go over ssh")
    return "--target", str(access.netns_pid)
