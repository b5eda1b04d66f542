"""Whatever a run's console and its archive do, each step that must be done is done."""

import resource
import shutil
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from e2c_dl.archive.records import Doing
from e2c_dl.archive.run import Outcome, read_run
from e2c_dl.archive.write import Archive
from e2c_dl.campaign.interrupts import interruptible
from e2c_dl.campaign.told import Outlived
from e2c_dl.campaign.underway import Underway
from e2c_dl.campaign.walk import Step, walk
from e2c_dl.errors import ArchiveError, E2cDlError, Interrupted, TrainingError

NAMES = ("deploy", "train", "collect", "release")
ALWAYS = NAMES[2:]


class Deaf:
    """A console whose every word fails once ``step`` has begun."""

    def __init__(self, step: str, error: BaseException) -> None:
        self._step, self._error, self._broken, self.calls = step, error, False, 0

    def begun(self, run_id: str, archive: Path) -> None: ...

    def step(self, name: str, what: str) -> None:
        self._broken |= name == self._step
        self._fail()

    def done(self, name: str, seconds: float) -> None:
        self._fail()

    def failed(self, name: str, why: str) -> None:
        self._fail()

    def say(self, line: str) -> None:
        self._fail()

    def _fail(self) -> None:
        self.calls += self._broken
        if self._broken:
            raise self._error


def underway(tmp_path, console):
    return Underway(console=console, archive=Archive.create(tmp_path / "a", "0a1b2c3d", started="2025-01-31T10:00:00Z"))


def steps(made, act):
    def acting(name):
        def acts(run):
            made.append(name)
            act(name)

        return acts

    return [Step(name=name, what="", act=acting(name), always=name in ALWAYS) for name in NAMES]


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ValueError("closed file"), SystemExit(1)])
@pytest.mark.parametrize("step", NAMES)
def test_a_console_that_fails_ends_nothing_and_is_recorded(tmp_path, step, error):
    made, console = [], Deaf(step, error)
    run = underway(tmp_path, console)
    assert walk(steps(made, lambda name: None), run) is None
    assert made == list(NAMES)
    assert console.calls == 1  # silent from then on
    run.conclude([])
    left = read_run(tmp_path / "a")
    assert left.outcome is Outcome.FINISHED
    assert type(error).__name__ in " ".join(left.what_happened)


def test_what_ends_a_step_passes_through_the_console():
    def stopped(line):
        raise Interrupted("stopped")

    console = Deaf("", ValueError())
    console.say = stopped
    with pytest.raises(Interrupted):
        Outlived(console).say("")


@pytest.mark.parametrize("step", NAMES)
def test_an_archive_that_is_removed_is_a_failure_and_skips_nothing_that_must_be_done(tmp_path, step):
    made = []
    run = underway(tmp_path, Deaf("", ValueError()))
    failure = walk(steps(made, lambda name: name == step and shutil.rmtree(tmp_path / "a")), run)
    assert isinstance(failure, ArchiveError)
    assert "was removed" in str(failure)
    assert [name for name in made if name in ALWAYS] == list(ALWAYS)
    assert len(run.failures) == 1  # though nothing could be recorded of any step from then on


def test_what_e2clab_missed_in_an_archive_that_is_gone_is_the_archive(tmp_path):
    def missing(name):
        if name == "train":
            shutil.rmtree(tmp_path / "a")
            raise TrainingError(f"prepare failed: FileNotFoundError: No such file or directory: '{tmp_path}/a/.e2clab'")

    failure = walk(steps([], missing), underway(tmp_path, Deaf("", ValueError())))
    assert isinstance(failure, ArchiveError)
    assert "was removed" in str(failure)


def test_memory_that_is_not_there_is_no_defect(tmp_path):
    def starved(name):
        if name == "train":
            raise MemoryError("malloc of size 1088 failed")

    failure = walk(steps([], starved), underway(tmp_path, Deaf("", ValueError())))
    assert str(failure).startswith("train: no memory was left for this program")
    assert str(failure).endswith("(malloc of size 1088 failed)")
    assert not (tmp_path / "a" / "logs" / "defect.txt").exists()


def test_what_fails_where_memory_is_nearly_used_up_fails_for_that(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()

    def fails(name):
        if name == "train":
            raise TrainingError("Ansible said something odd")

    failure = walk(steps([], fails), underway(tmp_path / "one", Deaf("", ValueError())))
    assert str(failure) == "Ansible said something odd"
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (used, used))
    failure = walk(steps([], fails), underway(tmp_path / "other", Deaf("", ValueError())))
    assert str(failure).startswith("train: no memory was left for this program; see ulimit -v")
    assert str(failure).endswith("(Ansible said something odd)")


def test_a_library_that_exits_is_a_failure(tmp_path):
    made = []

    def exits(name):
        if name == "train":
            raise SystemExit(0)

    failure = walk(steps(made, exits), underway(tmp_path, Deaf("", ValueError())))
    assert failure is not None
    assert "SystemExit" in str(failure)
    assert made == list(NAMES)


def test_the_first_failure_decides_though_the_archive_is_gone(tmp_path):
    def lost(name):
        if name == "train":
            shutil.rmtree(tmp_path / "a")
            raise TrainingError("rank 1 ran out of memory")

    failure = walk(steps([], lost), underway(tmp_path, Deaf("", ValueError())))
    assert str(failure) == "rank 1 ran out of memory"


def test_a_second_signal_ends_a_wait_that_is_always_done(monkeypatch):
    monkeypatch.setattr("e2c_dl.campaign.interrupts._AT_ONCE_S", 0.0)
    told = threading.Event()
    with interruptible(lambda line: told.set()) as interrupts:
        for _ in range(2):
            with pytest.raises(Interrupted, match="again"), interrupts.raised(False):
                signal.raise_signal(signal.SIGTERM)  # remembered, the first time
                assert told.wait(60)
                signal.raise_signal(signal.SIGTERM)
                raise AssertionError("it was waited on")


def test_what_must_be_whole_is_not_cut_by_another_signal_and_the_limit_comes_after_it(monkeypatch):
    monkeypatch.setattr("e2c_dl.campaign.interrupts._AT_ONCE_S", 0.0)
    with interruptible() as interrupts, pytest.raises(E2cDlError, match="took longer"):
        with interrupts.raised(False), interrupts.limited(0.05, lambda: E2cDlError("took longer")):
            with interrupts.put_off():
                for _ in range(3):
                    signal.raise_signal(signal.SIGINT)
                assert not threading.Event().wait(0.2)
            threading.Event().wait(60)


def test_two_signals_at_once_are_one():
    with interruptible() as interrupts, interrupts.raised(False):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)


def test_another_thread_ends_a_step():
    with interruptible() as interrupts:
        interrupts.end(E2cDlError("too early: no step is under way"))
        error = TrainingError("edge-1: no sign of life")
        with pytest.raises(TrainingError) as raised, interrupts.raised(True):
            threading.Timer(0.05, interrupts.end, (error,)).start()
            threading.Event().wait(60)
        assert raised.value is interrupts.ended is error


def test_what_others_swallow_is_raised_again_while_there_is_something_to_end(monkeypatch):
    monkeypatch.setattr("e2c_dl.campaign.interrupts._INSISTS_S", 0.1)
    error = TrainingError("edge-1 ended")
    with interruptible() as interrupts, interrupts.raised(True):
        with pytest.raises(TrainingError) as raised, interrupts.insisting():
            threading.Timer(0.05, interrupts.end, (error,)).start()
            with suppress(Exception):  # as Ansible, which skips a plugin that raises as it is loaded
                threading.Event().wait(60)
            threading.Event().wait(60)
        assert raised.value is error
        assert not threading.Event().wait(0.3)


@pytest.mark.parametrize("always", [True, False])
def test_a_limit_ends_a_step(always):
    with interruptible() as interrupts, pytest.raises(E2cDlError, match="took longer"):
        with interrupts.raised(not always), interrupts.limited(0.1, lambda: E2cDlError("took longer")):
            threading.Event().wait(60)


def test_a_step_within_its_limit_is_left_alone():
    with interruptible() as interrupts:
        with interrupts.raised(True), interrupts.limited(1.0, lambda: E2cDlError("took longer")):
            pass
        with interrupts.raised(True), interrupts.limited(None, lambda: E2cDlError("took longer")):
            assert not threading.Event().wait(1.5)


def test_a_limit_that_is_hit_names_the_step_and_who_was_waited_for(tmp_path):
    made = []

    def hangs(run):
        run.console.doing(Doing(what="What a worker left is packed", done=1, of=2, waiting=("edge-2",)))
        threading.Event().wait(60)

    steps = [
        Step(name="collect", what="", act=hangs, always=True, limit_s=0.1),
        Step(name="release", what="", act=lambda run: made.append("release"), always=True, limit_s=60),
    ]
    console = Deaf("", ValueError())
    console.doing = lambda doing: None
    failure = walk(steps, underway(tmp_path, console))
    assert str(failure).startswith("collect: not done after 0.1 s; waited for edge-2")
    assert made == ["release"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_each_of_the_signals_ends_a_run(number):
    with interruptible() as interrupts, pytest.raises(Interrupted, match=number.name), interrupts.raised(True):
        signal.raise_signal(number)


def test_under_nohup_a_closed_terminal_ends_nothing(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible() as interrupts, interrupts.raised(True):
            signal.raise_signal(signal.SIGHUP)
        assert interrupts.received is None
    finally:
        signal.signal(signal.SIGHUP, before)
