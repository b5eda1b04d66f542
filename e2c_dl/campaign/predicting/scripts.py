"""What a script's run would have taken, whose library hides its messages: by replaying its collectives.

::

    host:a.speed=2x            all that a computes takes half as long, but for what no phase names
    link:a->b.rate=50mbit      its bytes take what the sender saw / 50 Mbit/s times as long
    link:a->b.delay=5ms        data that crosses it takes 5 ms in place of half the round trip
    --without host:a           a has nothing to do and its links are free: its samples are trained by nobody
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2c_dl.archive.read import ReadArchive
from e2c_dl.campaign.predicting.asked import asked
from e2c_dl.campaign.predicting.whatif import Answer, about_unknown
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.observed import Observed, observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.references import Reference
from e2c_dl.diagnosis.replay.program import OWN
from e2c_dl.diagnosis.replay.whatif import RATE, WAY, Change, WhatIf
from e2c_dl.diagnosis.resimulation.links import MeasuredLink
from e2c_dl.diagnosis.resimulation.prediction import Method, Prediction
from e2c_dl.diagnosis.scripts import about_scripts
from e2c_dl.errors import InputError
from e2c_dl.scenario.what_if import Changed, LinkChange
from e2c_dl.topology import Pair
from e2c_dl.trace.model import COMPUTE, Trace
from e2c_dl.trace.warm_up import warm_up


@dataclass(frozen=True, kw_only=True)
class ScriptRun:
    """A script's run as its archive shows it, for predictions."""

    archive: ReadArchive
    reference: Reference
    observed: Observed

    @classmethod
    def of(cls, archive: ReadArchive, trace: Trace, reference: Reference) -> ScriptRun:
        """Raises: AnalysisError, if there is nothing to replay."""
        return cls(archive=archive, reference=reference, observed=observe(trace, reference))

    def asked(self, sets: Sequence[str], without: Sequence[str]) -> Changed:
        """What ``--set`` and ``--without`` ask of it. Raises: InputError."""
        ranks = self.reference.topology.ranks
        changed = asked(sets, without, ranks, self.observed.measured_links.keys())
        if len(changed.without) == len(ranks):
            raise InputError("--without: no rank would be left; leave one in")
        return changed

    def predict(self, changed: Changed) -> Answer:
        """What it would have taken with ``changed``; the interval is what its first half says of its second."""
        replay = self.observed.replay
        measured_s = replay.measured_ns / 1e9
        change = WhatIf(changes=tuple(self._changes(changed)))
        predicted_s = measured_s * replay.run_ns(change) / replay.replayed_ns
        iterations = self.observed.iterations
        error = replay.half_error(iterations, warm_up(iterations))
        reach_s = error * predicted_s
        about = (each.sentence for each in about_scripts(self.observed))
        limitations = (*about, *about_unknown(self.observed), *self.observed.trace.connections.limitations)
        if math.isnan(error):
            limitations += ("The run is too short to tell how far it predicts itself: there is no interval.",)
        if changed.without:
            gone = ", ".join(changed.without)
            limitations += (f"{gone}: as if it had nothing to do; its samples are trained by nobody.",)
        return Answer(
            scenario=self.archive.run.scenario, changed=changed, samples=None, limitations=limitations,
            prediction=Prediction(
                measured_s=measured_s, predicted_s=predicted_s, least_s=max(0.0, predicted_s - reach_s),
                most_s=predicted_s + reach_s, method=Method.REPLAY,
            ),
        )  # fmt: skip

    def _changes(self, changed: Changed) -> Iterator[Change]:
        links = self.observed.measured_links
        for host, speed in changed.speeds.items():
            yield Change(element=_host(host), phases=COMPUTE, scale=Piecewise.constant(1 / speed))
        for pair, change in changed.links.items():
            yield from _of_link(pair, change, links[pair])
        for host in changed.without:
            yield Change(element=_host(host), phases=OWN, scale=Piecewise.constant(0.0))
            for pair in links:
                if host in pair:
                    element = Element(kind=ElementKind.LINK, src=pair[0], dst=pair[1])
                    yield Change(element=element, scale=Piecewise.constant(0.0))


def _host(name: str) -> Element:
    return Element(kind=ElementKind.HOST, src=name)


def _of_link(pair: Pair, change: LinkChange, link: MeasuredLink) -> Iterator[Change]:
    element = Element(kind=ElementKind.LINK, src=pair[0], dst=pair[1])
    absolute_bps, absolute_s = change.rate_bps, change.delay_s
    rate = Piecewise.constant(1 / change.rate_factor)
    if absolute_bps is not None:
        rate = link.rate_bps.mapped(lambda measured_bps: measured_bps / absolute_bps)
    way = Piecewise.constant(change.delay_factor)
    if absolute_s is not None:
        if not link.delay_s.values.all():
            raise InputError(f"{element}: no round trip was told, so its delay cannot be set; change its rate instead")
        way = link.delay_s.mapped(lambda measured_s: absolute_s / measured_s)
    yield Change(element=element, phases=RATE, scale=rate)
    yield Change(element=element, phases=WAY, scale=way)
