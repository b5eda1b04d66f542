"""What a run would have taken, had its hosts and links been other than they were.

::

    archive --> trace, scenario --> replay             order as it was: strategies that wait for each other
                               '--> measured world     order anew: ranks at their own pace, or without a host

Both start from what was measured, and neither is told what was injected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from e2c_dl import strategies
from e2c_dl.archive.records import Doing
from e2c_dl.campaign.predicting.measured import MeasuredRun
from e2c_dl.diagnosis.choices import CLOSE, SAME, unevenness
from e2c_dl.diagnosis.model import MOST_UNKNOWN
from e2c_dl.diagnosis.observed import Observed
from e2c_dl.diagnosis.replay.whatif import WhatIf
from e2c_dl.diagnosis.resimulation.changes import restoring, what_if
from e2c_dl.diagnosis.resimulation.prediction import LAPS, Method, Prediction, resimulated
from e2c_dl.diagnosis.resimulation.world import MeasuredWorld
from e2c_dl.errors import AnalysisError
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.formatting import percent
from e2c_dl.scenario.budget import Unit
from e2c_dl.scenario.fewer_ranks import training_without
from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.what_if import Changed
from e2c_dl.topology import Pair
from e2c_dl.worlds.allotment import allotted

WORTH_SAYING = 0.05
"""Of a run: how far it is off when it is simulated again as it was, and what held one message up."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was asked of a run, and what it would take."""

    scenario: str
    changed: Changed
    prediction: Prediction
    samples: tuple[int, int] | None  # per iteration: before, after; None: nobody told
    limitations: tuple[str, ...] = ()


def predict(run: MeasuredRun, changed: Changed, tell: Callable[[Doing], None]) -> Answer:
    """What ``run`` would have taken with ``changed``. ``tell`` hears how far that is.

    Raises: AnalysisError, if it cannot be said; InputError, if fewer than two hosts are left.
    """
    change = what_if(changed.of_those_left, run.observed.measured_links, quota=run.quota)  # of a replay
    after = training_without(run.scenario, changed.without) if changed.without else run.scenario
    if run.incomplete is None:
        prediction, limitations = _of_whole(run, after, change, changed, tell)
    elif changed.without:
        raise AnalysisError(f"{run.incomplete}; a run without one of its hosts is told of whole runs alone")
    else:
        _check_seen(run, change)
        _check_known(run)
        prediction = replace(_replayed(run.observed, change), least_s=math.nan, most_s=math.nan)
        far = "each rank" if run.observed.own_pace else "all ranks"
        limitations = (f"{run.incomplete}; replayed as far as {far} came, in its order, without an interval.",)
    return Answer(
        scenario=run.archive.run.scenario, changed=changed, prediction=prediction, limitations=limitations,
        samples=(sum(run.scenario.training.batch_sizes), sum(after.training.batch_sizes)),
    )  # fmt: skip


def _of_whole(
    run: MeasuredRun, after: Scenario, change: WhatIf, changed: Changed, tell: Callable[[Doing], None]
) -> tuple[Prediction, tuple[str, ...]]:
    """The prediction for a run that can be simulated again, and its limitations."""
    tell(Doing(what="measuring the run"))
    world = run.observed.world(run.retraining)
    without = changed.without
    other, limitations = _without(run, world, after, without)
    there = what_if(changed.of_those_left, world.named_links, quota=run.quota)  # on a shared line, of their own rates
    if other.restored:  # links of a model, and of as many ranks
        known = {(each.element.src, each.element.dst or ""): each.restored for each in run.observed.links.departures}
        there = restoring(there, changed, known, run.scenario.topology.link)
    prediction = resimulated(world, other, there, on_lap=partial(_told, tell))
    used = (link for link in world.links.values() if link.messages)
    by_luck = any(link.loses for link in used)  # a replay has those segments lost that were
    held_up = _held_up(run.observed, changed.links)  # and so a replay scales what did
    anew = run.retraining.decided_anew or by_luck or held_up
    is_near = abs(world.error) <= CLOSE if anew else abs(world.error) <= SAME and _uneven(run.observed)
    by_time = run.scenario.training.ends.unit is Unit.SECONDS
    if run.retraining.in_step and not (is_near or without or by_time):  # replayed, it would have as many iterations
        prediction = _beside(_replayed(run.observed, change), prediction)
        limitations += about_unknown(run.observed)
    if run.retraining.hears_verdicts:
        limitations += ("Simulated again, the training hears no verdicts: it goes round nothing.",)
    if by_time:
        counts = f"{other.iterations(there)} iterations of all ranks together instead of {world.iterations()}"
        limitations += (f"Time ends this training: in it, there are {counts}.",)
    return prediction, limitations + _about(world)


def about_unknown(observed: Observed) -> tuple[str, ...]:
    """That a replay says little, where most of the time went where the trace does not show."""
    unknown = observed.replay.unexplained
    if unknown <= MOST_UNKNOWN:
        return ()
    path = f"{percent(unknown)} of the run's longest path has no known cause in the trace"
    return (f"{path}: the replay leaves that as it was, whatever a change would make of it.",)


def _told(tell: Callable[[Doing], None], done: int) -> None:
    tell(Doing(what="simulating the run again", done=done, of=LAPS))


def _check_seen(run: MeasuredRun, change: WhatIf) -> None:
    """Raises: AnalysisError, if nothing is known of what ``change`` changes, as of a host whose trace is lost."""
    known = run.observed.replay.services.elements
    unseen = sorted({str(each.element) for each in change.changes if each.element not in known})
    if unseen:
        what = f"what {', '.join(unseen)} did is not in it: ask of another host or link, or of a whole run"
        raise AnalysisError(f"{run.incomplete}; {what}")


def _check_known(run: MeasuredRun) -> None:
    """Raises: AnalysisError, if most of the time went where the trace does not show: no change would shorten that."""
    unknown = run.observed.replay.unexplained
    if unknown > MOST_UNKNOWN:
        why = f"{percent(unknown)} of the run's longest path has no known cause in it"
        raise AnalysisError(f"{run.incomplete}; {why}: ask of a whole run")


def _replayed(observed: Observed, change: WhatIf) -> Prediction:
    replaying = observed.replaying
    measured_s = replaying.measured_ns / 1e9
    (predicted_ns,) = replaying.runs_ns([change])
    predicted_s = measured_s * predicted_ns / replaying.replayed_ns
    return Prediction(
        measured_s=measured_s, predicted_s=predicted_s, least_s=predicted_s, most_s=predicted_s, method=Method.REPLAY
    )


def _beside(replayed: Prediction, resimulated: Prediction) -> Prediction:
    """``replayed``, with an interval that reaches as far as the other way to predict it."""
    ends_s = (replayed.predicted_s, resimulated.least_s, resimulated.most_s)
    return replace(replayed, least_s=min(ends_s), most_s=max(ends_s))


def _uneven(observed: Observed) -> bool:
    """Whether messages took unevenly long, beside all that departs."""
    return unevenness(observed, [each.restored for each in observed.links.departures]) is not None


def _held_up(observed: Observed, pairs: Collection[Pair]) -> bool:
    """Whether something beside their rate held one message of the links ``pairs`` up for long, by the run's time."""
    for link in observed.carried:
        if link.pair in pairs and len(link.rows):
            bits = wire_bits_of(link.rows["nbytes"])
            usual_ns = bits * np.median(link.services_ns / bits)
            if (link.services_ns - usual_ns).max() > WORTH_SAYING * observed.replay.measured_ns:
                return True
    return False


def _without(
    run: MeasuredRun, world: MeasuredWorld, after: Scenario, names: Sequence[str]
) -> tuple[MeasuredWorld, tuple[str, ...]]:
    """``world`` without the hosts ``names``, and what of it was not measured."""
    if not names:
        return world, ()
    training, ranks = after.training, after.topology.ranks
    strategy = partial(strategies.load(training.strategy), **training.strategy_settings)
    before = {host.name: rank for rank, host in enumerate(run.scenario.topology.ranks)}
    used = [(ranks[src].name, ranks[dst].name) for src, dst in strategy().used_links([host.layer for host in ranks])]
    added, unseen = run.designed_links([(before[src], before[dst]) for src, dst in used])
    said = f"{', '.join(unseen)}: carried nothing in this run, so taken as designed."
    other = world.with_unused(added, run.retraining.bottlenecks).without(names, strategy, partial(allotted, training))
    return other, (said,) if unseen else ()


def _about(world: MeasuredWorld) -> tuple[str, ...]:
    if abs(world.error) <= WORTH_SAYING:
        return ()
    return (f"Simulated again as it was, the run takes {world.error:+.1%}: what is left out of it may change, too.",)
