import os
import signal
import threading
import time

import pytest

from e2c_dl.campaign.interrupts import interruptible
from e2c_dl.errors import Interrupted


def stop() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class StoppedWhenCollected:
    def __del__(self) -> None:
        stop()
        time.sleep(0)  # the handler runs between two instructions, of this method


def test_it_is_raised_once():
    with pytest.raises(Interrupted, match="stopped by SIGINT"), interruptible() as interrupts:
        try:
            stop()
        finally:
            stop()  # at a terminal, people press more than once
            assert str(interrupts.received).startswith("stopped by SIGINT")


def test_it_is_only_remembered_while_held():
    with interruptible() as interrupts:
        interrupts.hold()
        stop()
        assert isinstance(interrupts.received, Interrupted)


def test_one_that_python_would_lose_is_raised_again(capfd):
    with pytest.raises(Interrupted), interruptible():
        StoppedWhenCollected()
        threading.Event().wait(60)  # until the alarm
    assert capfd.readouterr().err == ""


def test_everything_is_as_it_was_afterwards():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before
