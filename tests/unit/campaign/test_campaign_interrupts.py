import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from e2c_dl.campaign.interrupts import interruptible
from e2c_dl.campaign.underway import Underway
from e2c_dl.campaign.walk import Step, walk
from e2c_dl.errors import Interrupted

pytestmark = pytest.mark.timeout(method="thread")  # the alarm is theirs


def stop() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class StoppedWhenCollected:
    def __del__(self) -> None:
        stop()
        time.sleep(0)  # the handler runs between two instructions, of this method


def test_it_is_raised_once():
    with interruptible() as interrupts, pytest.raises(Interrupted, match="stopped by SIGINT"), interrupts.raised(True):
        try:
            stop()
        finally:
            stop()  # at a terminal, people press more than once
            assert str(interrupts.received).startswith("stopped by SIGINT")


def test_elsewhere_it_is_remembered_and_raised_when_it_may_be():
    with interruptible() as interrupts:
        stop()
        with interrupts.raised(False):
            stop()
        assert isinstance(interrupts.received, Interrupted)
        with pytest.raises(Interrupted), interrupts.raised(True):
            raise AssertionError("nothing more is begun")


def test_one_that_python_would_lose_is_raised_again(capfd):
    with interruptible() as interrupts, pytest.raises(Interrupted), interrupts.raised(True):
        StoppedWhenCollected()
        threading.Event().wait(60)  # until the alarm
    assert capfd.readouterr().err == ""


class Pressing:
    """A console at which Ctrl-C is pressed as soon as ``when`` is done."""

    def __init__(self, when: str) -> None:
        self.when = when

    def begun(self, run_id: str, archive: Path) -> None: ...

    def step(self, name: str, what: str) -> None: ...

    def failed(self, name: str, why: str) -> None: ...

    def say(self, line: str) -> None: ...

    def done(self, name: str, seconds: float) -> None:
        if name == self.when:
            stop()


class Recorded(Underway):
    """A run with an archive that only notes the steps."""

    def note(self, step, seconds, error, *, last):
        self.noted = [*getattr(self, "noted", []), step]
        if error is not None:
            self.failures.append((step, error))


@pytest.mark.parametrize("when", ["deploy", "train", "release"])
def test_between_two_steps_it_does_not_skip_what_must_be_done(when, tmp_path):
    made = []
    steps = [Step(name=name, what="", act=lambda _, name=name: made.append(name)) for name in ("deploy", "train")]
    steps.append(Step(name="release", what="", act=lambda _: made.append("release"), always=True))
    run = Recorded(console=Pressing(when), archive=SimpleNamespace(path=tmp_path))
    failure = walk(steps, run)
    assert made == {"deploy": ["deploy", "release"]}.get(when, ["deploy", "train", "release"])
    assert isinstance(failure, Interrupted) == (when == "deploy")
    assert run.noted[-1] == "release"


def test_everything_is_as_it_was_afterwards():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before
