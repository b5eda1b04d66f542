"""Links as designed, simulated: what their messages, sent when they were sent, take by what TCP makes of it.

::

    sent at  | |    |          observed   |==|  |=====|      |=====|    beyond that: the link departs
             as it was         simulated  |==|  |====|       |====|     windows that open, a queue that is full

A message that is held up by TCP is late over a link that is as designed. What the simulated link would have taken as
long for is nobody's departure. Acknowledgements come back as late as the other way's messages began to arrive: a delay
there is not this way's. Where nothing went the other way, the links that lead between the same layers tell: if all of
these are late, it is as late as the least late of them. Simulated are links by themselves, and those of one shared
bottleneck together, with the rates and delays that schedules give them; not those that lose segments by a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, UNEVEN
from e2c_dl.diagnosis.detection.series import FLOOR, FLOOR_MODELLED
from e2c_dl.diagnosis.links import ObservedLink, services_ns
from e2c_dl.diagnosis.piecewise import Piecewise, added, multiplied
from e2c_dl.diagnosis.resimulation.lines import at_rates
from e2c_dl.diagnosis.resimulation.links import designed_link
from e2c_dl.diagnosis.resimulation.world import model_of
from e2c_dl.topology import Bottleneck, BurstLoss, Distribution, Pair
from e2c_dl.worlds.virtual.links import LinkModel, SharedRate, link_model, shared_rate
from e2c_dl.worlds.virtual.tcp.alone import Sent, arrivals_ns

MOST_MESSAGES = 20_000  # of what is simulated together: a second or so
DEVIATIONS = 2.0  # standard ones, of what jitter adds
LEAST_TELLING = 3  # links between two layers: fewer may be late each by itself
HELD_UP = 1.2  # times longer than its bits take
UNCHANGED = Piecewise.constant(1.0)
BROUGHT = 0.08  # of what a message takes: so far from when they came at most is what simulated links bring


def at_least_ns(link: ObservedLink, would_ns: Doubles) -> Doubles:
    """``would_ns``, what messages of ``link`` take as designed, shape (messages,), or what their bits take."""
    return np.asarray(np.fmax(would_ns, link.expected_ns))


def later_than(link: ObservedLink, would_ns: Doubles, besides_ns: float = 0.0) -> npt.NDArray[np.bool_]:
    """Which messages of ``link`` take longer than ``would_ns`` and ``besides_ns``, and a grain; shape (messages,)."""
    return np.asarray(link.services_ns > at_least_ns(link, would_ns) * (1 + UNEVEN) + GRAIN_NS + besides_ns)


class AsDesigned:
    """The links ``carried`` as they are designed, each simulated once if it is asked for."""

    def __init__(self, carried: Sequence[ObservedLink], design: Design) -> None:
        self._links, self._design = {each.pair: each for each in carried}, design
        self._known: dict[Pair, Doubles | None] = {}

    @property
    def exact(self) -> bool:
        """Whether links are what they are simulated as: those of a modelled world."""
        return self._design.reference.modelled

    def explains(self, link: ObservedLink, departs: npt.NDArray[np.bool_]) -> bool | None:
        """Whether ``link``'s messages ``departs``, shape (messages,), take hardly longer than as designed.

        None: that is not known.
        """
        would_ns = self.would_ns(link)
        if would_ns is None:
            return None
        took_ns, most_ns = (float((each[departs] + GRAIN_NS).sum()) for each in (link.services_ns, would_ns))
        most_ns += self._jitter_ns(link, int(departs.sum()))
        floor = FLOOR_MODELLED if self.exact else FLOOR
        return bool(took_ns < np.exp(floor) * most_ns)

    def held_up(self, link: ObservedLink) -> npt.NDArray[np.bool_]:
        """The messages of ``link`` that windows keep as designed, too, shape (messages,): none where nobody knows."""
        would_ns = self.exactly_ns(link)
        if would_ns is None:
            return np.zeros(len(link.rows), dtype=np.bool_)
        return np.asarray(would_ns > HELD_UP * link.expected_ns + GRAIN_NS)

    def misfits_ns(
        self, link: ObservedLink, judged: npt.NDArray[np.bool_], delay_s: Piecewise, rate: Piecewise
    ) -> tuple[float, float] | None:
        """How far messages of ``link`` are from when a delay would have brought them, and from when a rate would.

        Of the messages ``judged``, together; ``delay_s``: more than designed; ``rate``: a part of the designed one.
        None: that is not known.

        A delay that goes gives back what it took: of messages that wait for each other those behind it come close
        together. What a lower rate took is gone, and all that follow are as late. So messages are held to when they
        were given to the link, and not to when it took them. Before those that are judged it is as designed: nobody
        knows more of it, and windows that open late there would hide all else.
        """
        if not self.is_known_alone(link):
            return None
        first_s = max(0.0, float(link.rows["send_start_ns"][judged].min() - link.began_ns) / 1e9)
        late_ns = self.off_ns(link, delay_s=delay_s.since(first_s, 0.0))
        slow_ns = self.off_ns(link, rate=rate.since(first_s, 1.0))
        return float(late_ns[judged].sum()), float(slow_ns[judged].sum())

    def is_known_alone(self, link: ObservedLink) -> bool:
        """Whether ``link`` can be simulated by itself, for it shares no line."""
        return not self._unknown([link]) and link.pair not in self._design.line_of

    def off_ns(self, link: ObservedLink, *, rate: Piecewise | None = None, delay_s: Piecewise | None = None) -> Doubles:
        """How far each message of ``link``, shape (messages,), came from when the link would have brought it.

        With ``delay_s`` more than designed, and ``rate`` as a part of the designed one. As :meth:`misfits_ns` has it:
        held to when they were given to the link, which must be known alone.
        """
        began_ns = int(link.rows["posted_ns"].min())
        given_ns = np.maximum.accumulate(link.rows["posted_ns"] - began_ns)  # in the order in which they left
        model = self._model(link.pair, self._later_s(began_ns), delay_s=delay_s, rate=rate)
        (arrived_ns,) = arrivals_ns([replace(self._sent(link, began_ns), model=model, at_ns=given_ns.tolist())])
        return np.abs(link.rows["recv_end_ns"] - began_ns - arrived_ns).astype(np.float64)

    def exactly_ns(self, link: ObservedLink) -> Doubles | None:
        """The same as :meth:`would_ns`, where links are nothing but that, and luck has no part in it; else None."""
        return self.would_ns(link) if self.exact and not link.designed.loses else None

    def would_ns(self, link: ObservedLink) -> Doubles | None:
        """What each message of ``link`` takes as designed, shape (messages,); None: that is not known."""
        if link.by_receiver:
            return None
        if link.pair not in self._known:
            shared = next((each for each in self._design.bottlenecks if link.pair in each.links), None)
            self._known |= self._simulated([link.pair] if shared is None else shared.links, shared)
        return self._known[link.pair]

    def by_luck(
        self, link: ObservedLink, luck: int, *, rate: Piecewise | None = None, delay_s: Piecewise | None = None,
        losses: Piecewise = UNCHANGED,
    ) -> ObservedLink:  # fmt: skip
        """``link``, which is known but for its losses, as it would have been by ``luck``: sent to when it was.

        As designed, or with a part of its ``rate``, more ``delay_s``, and ``losses`` times as often one.
        """
        began_ns = int(link.rows["send_start_ns"][0])
        model = self._model(link.pair, self._later_s(began_ns), delay_s=delay_s, rate=rate, losses=losses)
        (there_ns,) = arrivals_ns([replace(self._sent(link, began_ns), model=model)], luck=luck)
        rows = link.rows.copy()
        rows["recv_end_ns"] = began_ns + there_ns
        return replace(link, rows=rows)

    def _jitter_ns(self, link: ObservedLink, count: int) -> float:
        """By how much ``count`` messages together are late, by the jitter that ``link`` has by design, at most."""
        designed = self._design.reference.topology.link(link.src, link.dst)
        most_s = designed.jitter_s * (1.0 if designed.distribution is Distribution.UNIFORM else DEVIATIONS)
        return 1e9 * most_s * min(count, DEVIATIONS * math.sqrt(count))

    def _simulated(self, pairs: Sequence[Pair], shared: Bottleneck | None) -> dict[Pair, Doubles | None]:
        """Pair -> what each message takes, shape (messages,); None where that cannot be told."""
        links = [self._links[pair] for pair in pairs if pair in self._links]
        unknown: dict[Pair, Doubles | None] = dict.fromkeys(pairs)
        if self._unknown(links):
            return unknown
        began_ns = min(int(each.rows["send_start_ns"][0]) for each in links)
        queue = None if shared is None else self._queue(shared, self._later_s(began_ns))
        arrived_ns = arrivals_ns([self._sent(each, began_ns) for each in links], queue)
        for link, there_ns in zip(links, arrived_ns, strict=True):
            simulated = link.rows.copy()
            simulated["recv_end_ns"] = began_ns + there_ns
            unknown[link.pair] = services_ns(simulated, link.designed_delay_ns).astype(np.float64)
        return unknown

    def _unknown(self, links: Sequence[ObservedLink]) -> bool:
        """Whether nobody knows, or would wait for, what TCP makes of ``links``."""
        if self._design.reference.tcp is None or sum(len(each.rows) for each in links) > MOST_MESSAGES:
            return True
        return any(self._loses_by_schedule(each.pair) for each in links)

    def _loses_by_schedule(self, pair: Pair) -> bool:
        schedule = self._design.reference.schedules.links.get(pair)
        return schedule is not None and schedule.loss is not None

    def _later_s(self, began_ns: int) -> float:
        """How much later than training what is simulated begins."""
        return (began_ns - self._design.began_ns) / 1e9

    def _queue(self, shared: Bottleneck, later_s: float) -> SharedRate:
        """What limits ``shared`` as designed from ``later_s`` of training on."""
        capacity = self._design.capacity(shared).after(later_s)
        model = shared_rate(shared, self._design.reference.topology)
        return at_rates(model, capacity.starts_s.tolist(), capacity.values.tolist())

    def _sent(self, link: ObservedLink, began_ns: int) -> Sent:
        topology = self._design.reference.topology
        there = topology.link(link.src, link.dst)
        back = topology.links.get((link.dst, link.src), there)  # of one that is not designed, as the virtual world
        return Sent(
            model=self._model(link.pair, self._later_s(began_ns)), back_s=back.delay_s + self._later_back_s(link),
            at_ns=(link.rows["send_start_ns"] - began_ns).tolist(), nbytes=link.rows["nbytes"].tolist(),
        )  # fmt: skip

    def _model(
        self, pair: Pair, later_s: float, *, delay_s: Piecewise | None = None, rate: Piecewise | None = None,
        losses: Piecewise = UNCHANGED,
    ) -> LinkModel:  # fmt: skip
        """The link as designed from ``later_s`` of training on, with ``delay_s`` added, and ``rate`` of its rate.

        It loses ``losses`` times as often; of bursts begin as many times more, all the time as many as ever.
        """
        reference = self._design.reference
        link = designed_link(self._design.alone(pair), reference.tcp)
        designed = replace(
            link, delay_s=link.delay_s if delay_s is None else added(link.delay_s, delay_s),
            rate_bps=link.rate_bps if rate is None else multiplied(link.rate_bps, rate),
            loss=multiplied(link.loss, losses),
            burst=link.burst and _more_bursts(link.burst, float(losses.values.max())),
        )  # fmt: skip
        return model_of(designed.after(later_s), like=link_model(reference.topology.link(*pair), reference.tcp))

    def _later_back_s(self, link: ObservedLink) -> float:
        """How much later than designed all that came the other way began to arrive; where nothing did, by its layer."""
        back = self._links.get((link.dst, link.src))
        if back is not None:
            return 0.0 if back.by_receiver else _late_s(back)
        return self._layers_late_s.get(self._way((link.dst, link.src)), 0.0)

    @cached_property
    def _layers_late_s(self) -> Mapping[tuple[str, str, str | None], float]:
        """Way from layer to layer -> how late the least late of its links is, of ways with LEAST_TELLING and more."""
        late_s: dict[tuple[str, str, str | None], list[float]] = {}
        for pair, link in self._links.items():
            if not link.by_receiver:
                late_s.setdefault(self._way(pair), []).append(_late_s(link))
        return {way: min(each) for way, each in late_s.items() if len(each) >= LEAST_TELLING}

    def _way(self, pair: Pair) -> tuple[str, str, str | None]:
        """The two layers that ``pair`` leads between, and the line that it shares."""
        src, dst = pair
        return self._layers[src], self._layers[dst], self._design.line_of.get(pair)

    @cached_property
    def _layers(self) -> Mapping[str, str]:
        return {host.name: host.layer for host in self._design.reference.topology.hosts}


def _more_bursts(burst: BurstLoss, times: float) -> BurstLoss:
    most = {name: min(1.0, getattr(burst, name) * times) for name in ("good_to_bad", "loss_in_good")}
    return replace(burst, **most)


def _late_s(link: ObservedLink) -> float:
    """How much later than designed all that ``link`` carried began to arrive."""
    late_ns = link.rows["recv_start_ns"] - link.rows["send_start_ns"] - link.designed_delay_ns
    return max(0.0, float(late_ns.min()) - link.uncertainty_ns) / 1e9
