"""One recurrence that suits all late messages: found where there is one, and not where lateness is random."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.links.recurring_rate import Recurrence, recurrence

MESSAGES, BUSY_S = 40, 0.1


def suited(found: Recurrence, begins_s: np.ndarray, ends_s: np.ndarray, late_s: np.ndarray) -> float:
    """The part of the messages that ``found`` has as late as they were, but for a twentieth of what they took."""
    slow = np.array(found.slow(float(ends_s[-1])))
    shared_s = np.minimum(ends_s[:, None], slow[:, 1]) - np.maximum(begins_s[:, None], slow[:, 0])
    would_s = np.maximum(0.0, shared_s).sum(axis=1) * (1 - 1 / found.rate)
    return float((np.abs(would_s - late_s) <= 0.05 * (ends_s - begins_s)).mean())


def served(late_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Messages of BUSY_S each, one after another, and so much longer."""
    ends_s = np.cumsum(BUSY_S + late_s)
    return ends_s - BUSY_S - late_s, ends_s, late_s


def recurring(rate: float, period_s: float, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Messages that are served while the rate is ``rate`` times lower at the end of each period."""
    step_s, now_s, late_s = 1e-4, 0.0, []
    for _ in range(MESSAGES):
        begin_s, left_s = now_s, BUSY_S
        while left_s > 0:
            left_s -= step_s / (rate if now_s % period_s >= (1 - share) * period_s else 1.0)
            now_s += step_s
        late_s.append(now_s - begin_s - BUSY_S)
    return served(np.array(late_s))


def test_its_period_and_rate_are_those_of_the_link() -> None:
    messages = recurring(rate=4.0, period_s=0.9, share=0.25)
    found = recurrence(*messages)
    assert found is not None
    assert (found.period_s, found.rate) == (pytest.approx(0.9, rel=0.02), pytest.approx(4.0, rel=0.15))
    assert suited(found, *messages) >= 0.9


@pytest.mark.parametrize("seed", range(5))
def test_none_suits_what_is_late_at_random(seed: int) -> None:
    draw = np.random.default_rng(seed)
    messages = served(np.where(draw.random(MESSAGES) < 0.4, draw.exponential(0.1, MESSAGES), 0.0))
    found = recurrence(*messages)
    assert found is None or suited(found, *messages) < 0.9


@pytest.mark.parametrize("usual_s", [1e-4, 1e-9])
def test_messages_that_are_short_beside_the_run_ask_for_no_search(usual_s: float) -> None:
    begins_s = np.sort(np.random.default_rng(1).random(200)) ** 8 * 100.0
    assert recurrence(begins_s, begins_s + 2 * usual_s, np.full(200, usual_s)) is None
