"""Registry of the runs of this machine: one directory per run, and one small file in it that says whose it is.

::

    /run/e2c-dl/              root's; E2CDL_STATE overrides it; its lock is a flock on the directory itself
      3fa91c07/               0700, made by ``begin`` before anything else of the run exists
        state.json            a RegisteredRun, and FORMAT; replaced as a whole, so a reader never sees half of one
        ...                   whatever the testbed keeps there: keys, the hosts' own files

A run's id is in every name that the run creates on the machine, and in the environment (``E2CDL_RUN``) of every process
it starts. So what a run left can be found from its id alone; state.json says only who started it, when, and what
was planned. A run is alive while its controller, the process that began it, is. A state.json that cannot be read
concerns that run alone: ``broken`` names it, and whether it is alive is not known.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from e2c_dl import codec
from e2c_dl.atomic_write import replacing
from e2c_dl.errors import ArchiveError, InputError, TestbedError
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.pids import start_ticks

RUN_VARIABLE = "E2CDL_RUN"  # carries the run's id in the environment of every process of a run
STATE_VARIABLE = "E2CDL_STATE"
_DEFAULT_BASE = "/run/e2c-dl"
SECRETS = "secrets.json"  # what must be told nowhere of a run, for whoever finishes it
STATE = "state.json"
FORMAT = 1  # of state.json
_IN_NO_FILE = ("id", "directory")  # where a run's directory is says both
UNCOLLECTED = "uncollected"
"""Of a run's details: hosts whose files are not all in its archive -> where they are kept. Absent: not known yet."""

_ID = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, kw_only=True)
class RegisteredRun:
    """One run as it is known on this machine. ``hosts`` is empty until they were brought up."""

    id: str  # 8 hexadecimal digits
    directory: Path  # the run's own directory in the registry
    controller_pid: int
    controller_start: int  # clock ticks since boot: with the pid, names a process for good
    begun_s: float  # Unix time
    scenario: str  # its name
    archive: str  # where the run is kept; may be empty
    slot: int  # which of the machine's management networks this run has
    hosts: tuple[Access, ...] = ()
    testbed: str = "local"  # whose ``cleanup`` end it
    details: Mapping[str, Any] = field(default_factory=dict)  # what that testbed needs to end it: plain JSON
    kept: bool = False  # its hosts stay up on purpose, though its controller is gone

    @property
    def environ(self) -> dict[str, str]:
        """What every process of the run must have in its environment."""
        return {RUN_VARIABLE: self.id}  # inherited by children: pids or groups would miss what detaches itself


def new_run_id() -> str:
    """A fresh id: 8 hexadecimal digits, random."""
    return secrets.token_hex(4)  # 8 digits: a device's name has at most 15 characters, and carries it after a prefix


def state_base(environ: Mapping[str, str] | None = None) -> Path:
    """The registry's directory, absolute, links resolved."""
    environ = os.environ if environ is None else environ
    # resolved: clean-up compares it with mount points, which are
    return Path(os.path.realpath(environ.get(STATE_VARIABLE) or default_base(environ, os.geteuid())))


def default_base(environ: Mapping[str, str], uid: int) -> str:
    """Where the runs of user ``uid`` are: root's in /run, others' in the place that their session has for such things.

    Without a session, as under cron, in /tmp.
    """
    if uid == 0:
        return _DEFAULT_BASE
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    return f"{runtime}/e2c-dl" if os.access(runtime, os.W_OK) else f"/tmp/e2c-dl-{uid}"


def is_run_id(text: str) -> bool:
    """Whether ``text`` may name a run."""
    return _ID.fullmatch(text) is not None


def run_directory(run_id: str, base: Path | None = None) -> Path:
    """Where ``run_id`` has its directory. Raises: InputError if it is not an id."""
    if not is_run_id(run_id):
        raise InputError(f"run {run_id!r}: not a run's id; write the 8 hexadecimal digits that `e2c-dl destroy` lists")
    return (base or state_base()) / run_id


def begin(
    run_id: str,
    *,
    scenario: str,
    archive: str = "",
    testbed: str = "local",
    details: Mapping[str, Any] | None = None,
    choose_slot: Callable[[frozenset[Any]], int] = lambda taken: 0,
    base: Path | None = None,
) -> RegisteredRun:
    """The run, registered: this process is its controller. Nothing of a run may be created before.

    ``choose_slot`` gets the slots of all other runs and returns a free one; no other run can begin meanwhile.
    Raises: TestbedError if the registry cannot be written, or the id is taken.
    """
    directory = run_directory(run_id, base)
    try:
        _make_base(directory.parent)
        with locked(directory.parent):
            others = (_fields(other).get("slot") for other in _directories(directory.parent))
            taken = frozenset(slot for slot in others if isinstance(slot, int))
            run = RegisteredRun(
                id=run_id,
                directory=directory,
                controller_pid=os.getpid(),
                controller_start=start_ticks(os.getpid()) or 0,
                begun_s=time.time(),
                scenario=scenario,
                archive=archive,
                slot=choose_slot(taken),
                testbed=testbed,
                details=dict(details or {}),
            )
            directory.mkdir(mode=0o700)  # private keys will stand in it
            save(run)
    except OSError as error:
        raise TestbedError(
            f"{directory}: cannot register the run: {error.strerror}; "
            f"run as root, or set {STATE_VARIABLE} to a directory that can be written"
        ) from error
    return run


def save(run: RegisteredRun) -> None:
    """Write ``run`` over its state.json, as a whole."""
    fields = {name: value for name, value in vars(run).items() if name not in _IN_NO_FILE}
    with replacing(run.directory / STATE) as place:  # at once: other commands read it at any moment
        place.write_bytes(codec.encode({"format": FORMAT} | fields))


def changed(run: RegisteredRun, **fields: Any) -> RegisteredRun:
    """``run`` with these of its fields, ``details`` added to those that it has, saved."""
    run = replace(run, **fields | {"details": {**run.details, **fields.get("details", {})}})
    save(run)
    return run


def load(run_id: str, base: Path | None = None) -> RegisteredRun:
    """The run ``run_id``. Raises: InputError if there is none; TestbedError if its state.json cannot be read."""
    directory = run_directory(run_id, base)
    if not os.path.lexists(directory / STATE):
        raise InputError(f"run {run_id}: there is none in {directory.parent}; `e2c-dl destroy` lists what there is")
    if isinstance(run := _read(directory), TestbedError):
        raise run
    return run


def runs(base: Path | None = None) -> tuple[RegisteredRun, ...]:
    """All runs of this machine, oldest first, dead ones among them, but for those that are ``broken``."""
    found = [run for run in _all(base).values() if isinstance(run, RegisteredRun)]
    return tuple(sorted(found, key=lambda run: (run.begun_s, run.id)))


def broken(base: Path | None = None) -> dict[str, str]:
    """The runs whose state.json cannot be read: id -> one line, why and what to do."""
    return {run_id: str(run) for run_id, run in _all(base).items() if isinstance(run, TestbedError)}


def up(run_id: str | None) -> RegisteredRun:
    """The run ``run_id``, or, without one, the only one that has hosts up. Raises: InputError, TestbedError."""
    if run_id in (damaged := broken()):
        raise TestbedError(damaged[run_id])
    found = {run.id: run for run in runs() if run.hosts and not run.details.get(UNCOLLECTED)}
    if run_id is None and len(found) == 1:
        return next(iter(found.values()))
    if run_id is None or run_id not in found:
        what = "several runs are up" if run_id is None else f"{run_id}: no such run has hosts up"
        if not found:
            none = "no run is up" if run_id is None else what
            raise InputError(f"{none}; `e2c-dl deploy` begins one, and with --keep leaves its hosts up")
        raise InputError(f"{what}; name one of {', '.join(found)}")
    return found[run_id]


def dead_runs(base: Path | None = None) -> tuple[str, ...]:
    """Ids of the runs whose controller is gone, also before it wrote state.json, but for those that are kept."""
    base = base or state_base()
    if not base.is_dir():
        return ()
    with locked(base):  # under the lock, a directory without state.json has no live controller about to write it
        return tuple(directory.name for directory in _directories(base) if _is_dead(directory))


def name_of_testbed(run_id: str, base: Path | None = None) -> str | None:
    """The name of the testbed that ``run_id`` is on; None if its state.json does not tell.

    "local" if its run was killed before it could say: nothing exists of it then, but for its directory.
    """
    directory = run_directory(run_id, base)
    if not os.path.lexists(directory / STATE):
        return "local"
    name = _fields(directory).get("testbed")
    return name if isinstance(name, str) else None


def live_controller(directory: Path) -> int | None:
    """The pid of the process that began the run of ``directory``; None if it is gone, or is not known."""
    fields = _fields(directory)
    pid, start = fields.get("controller_pid"), fields.get("controller_start")
    # a pid alone may be another process's by now
    return pid if isinstance(pid, int) and start is not None and start_ticks(pid) == start else None


def _is_dead(directory: Path) -> bool:
    if not os.path.lexists(directory / STATE):
        return True  # killed before it was there
    run = _read(directory)
    return isinstance(run, RegisteredRun) and not run.kept and live_controller(directory) is None


def _make_base(base: Path) -> None:
    """Raises: OSError; TestbedError if somebody else made it: what stands in it would be at his mercy."""
    uid = os.geteuid()
    base.mkdir(parents=True, exist_ok=True, mode=0o755 if uid == 0 else 0o700)  # root's may be listed, not entered
    if uid != 0 and base.stat().st_uid != uid:  # exist_ok takes what anybody put there, and in /tmp everybody may
        raise TestbedError(f"{base}: belongs to another user; set {STATE_VARIABLE} to a directory of your own")


@contextmanager
def held(run_id: str, base: Path | None = None) -> Iterator[bool]:
    """While in it, nobody else ends or finishes that run; who comes second waits. False: there is none (any more)."""
    directory = run_directory(run_id, base)
    with ExitStack() as lock:
        with suppress(FileNotFoundError):
            lock.enter_context(locked(directory))
        yield directory.exists()  # who was waited for may have removed it


@contextmanager
def locked(base: Path) -> Iterator[None]:
    """While in it, no other process is. The kernel lets go of the lock when its holder dies, however it dies."""
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)  # no lock file, which could be removed under its holder
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _directories(base: Path) -> list[Path]:
    return [entry for entry in sorted(base.iterdir()) if _ID.fullmatch(entry.name) and entry.is_dir()]


def _all(base: Path | None) -> dict[str, RegisteredRun | TestbedError]:
    """Id -> the run, or why its state.json cannot be read; without those that never came to write one."""
    base = base or state_base()
    if not base.is_dir():
        return {}
    with locked(base):
        found = {each: _read(each) for each in _directories(base)}
        return {each.name: run for each, run in found.items() if os.path.lexists(each / STATE)}  # or removed meanwhile


def _fields(directory: Path) -> dict[str, Any]:
    """What state.json of ``directory`` says, of whatever types; nothing if it is not there, or cannot be read."""
    try:
        return codec.read(directory / STATE, dict[str, Any])
    except ArchiveError:
        return {}


def _read(directory: Path) -> RegisteredRun | TestbedError:
    """The run of ``directory``; why there is none to be had from its state.json."""
    place, remedy = directory / STATE, f"`e2c-dl destroy {directory.name}` ends that run"
    try:
        fields = codec.decode(place.read_bytes(), dict[str, Any], str(place), error=TestbedError, remedy=remedy)
        if (found := fields.pop("format", None)) != FORMAT:
            what = "of no format" if found is None else f"of format {found!r:.20}, not {FORMAT}"
            return TestbedError(f"{place}: {what}: written by another version of this program; {remedy}")
        fields |= {"id": directory.name, "directory": directory}
        return codec.convert(fields, RegisteredRun, str(place), error=TestbedError, remedy=remedy)
    except OSError as error:
        return TestbedError(f"{place}: cannot be read: {error.strerror}; {remedy}")
    except TestbedError as error:
        return error
