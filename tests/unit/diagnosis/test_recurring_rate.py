"""One recurrence that suits all late messages: found where there is one, and not where lateness is random."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.links.lower_rate import recurring_rate
from e2c_dl.diagnosis.detection.links.recurring_rate import Recurrence, recurrence
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.ethernet import wire_bits
from e2c_dl.trace.messages import MESSAGE

MESSAGES, BUSY_S = 40, 0.1
NBYTES = 100_000


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


def recurring(
    rate: float, period_s: float, share: float, messages: int = MESSAGES
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Messages that are served while the rate is ``rate`` times lower at the end of each period."""
    step_s, now_s, late_s = 1e-4, 0.0, []
    for _ in range(messages):
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


def carried(begins_s: np.ndarray, ends_s: np.ndarray) -> Any:
    """A link that carried messages of BUSY_S each from ``begins_s`` to ``ends_s``, and departs."""
    rows = np.zeros(len(begins_s), dtype=MESSAGE)
    rows["nbytes"] = NBYTES
    rows["send_start_ns"], rows["recv_end_ns"] = np.rint(begins_s * 1e9), np.rint(ends_s * 1e9)
    rate_bps = float(wire_bits(NBYTES)) / BUSY_S
    return SimpleNamespace(
        link=ObservedLink(
            src="a", dst="b", rows=rows, designed=Designed(own=Piecewise.constant(rate_bps)), began_ns=0,
            uncertainty_ns=0, first_iteration=0,
        )
    )  # fmt: skip


AS_DESIGNED: Any = SimpleNamespace(would_ns=lambda link: link.expected_ns, exact=False)
MODELLED: Any = SimpleNamespace(would_ns=lambda link: link.expected_ns, exact=True)


def test_a_queue_that_overflows_each_time_hides_no_rate_that_recurs() -> None:
    begins_s, ends_s, late_s = recurring(rate=3.0, period_s=2.0, share=0.4, messages=100)
    for first in np.flatnonzero((late_s[1:] > BUSY_S) & (late_s[:-1] <= BUSY_S))[::2] + 1:
        ends_s[first : first + 3] = ends_s[first + 2]  # behind a segment of the first that is sent again
    kind = recurring_rate(carried(begins_s, ends_s), AS_DESIGNED)
    assert kind is not None and kind.part is Part.RATE
    assert kind.rate == pytest.approx(3.0, rel=0.1)
    assert kind.slow[0] == (pytest.approx(1.2, abs=0.1), pytest.approx(2.0, abs=0.1))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("often", [0.2, 0.9])
def test_losses_are_no_rate_that_recurs(often: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    late_s = np.where(draw.random(MESSAGES) < often, draw.exponential(0.05, MESSAGES), 0.0)
    begins_s, ends_s, _ = served(late_s)
    assert recurring_rate(carried(begins_s, ends_s), AS_DESIGNED) is None


def test_links_that_are_nothing_but_a_model_must_be_suited_better() -> None:
    begins_s, ends_s, late_s = recurring(rate=3.0, period_s=2.0, share=0.4, messages=100)
    assert recurring_rate(carried(begins_s, ends_s), MODELLED) is not None
    draw = np.random.default_rng(0)
    uneven_s = ends_s + np.where(late_s > 0, draw.normal(0.0, 0.25, len(late_s)) * late_s, 0.0)
    on_machines, modelled = (recurring_rate(carried(begins_s, uneven_s), each) for each in (AS_DESIGNED, MODELLED))
    assert on_machines is not None
    assert modelled is None


def test_fewer_times_than_four_tell_no_rate_that_recurs() -> None:
    begins_s, ends_s, _ = recurring(rate=3.0, period_s=2.0, share=0.4, messages=100)
    shown = begins_s < 6.5  # three
    assert recurring_rate(carried(begins_s[shown], ends_s[shown]), AS_DESIGNED) is None


def test_losses_that_come_and_go_are_none_either() -> None:
    begins_s = [0.0, 0.7, 1.5, 2.3, 2.6, 3.2, 4.6, 5.1, 5.8, 7.4, 9.0, 10.0, 10.5, 12.5, 13.3, 14.4, 17.2, 18.5, 19.7]
    took = [1.26, 1.07, 1.01, 1.19, 2.64, 2.08, 4.0, 7.04, 2.1, 2.73, 8.0, 2.2, 7.37, 2.35, 1.7, 1.43, 8.8, 2.63, 9.2]
    ends_s = np.array(begins_s) + BUSY_S * np.array(took)
    assert recurring_rate(carried(np.array(begins_s), ends_s), AS_DESIGNED) is None
    found = recurrence(np.array(begins_s), ends_s, BUSY_S * (np.array(took) - 1))
    assert found is not None and found.share > 0.6, "any rate suits so few, if it is lower nearly all the time"
