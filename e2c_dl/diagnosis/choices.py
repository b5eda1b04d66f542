"""What departures cost where ranks keep in step, and a replay does not tell: choices by rates, shared lines, changes.

::

    iteration    0              1 ... 49
    all links    each a model   -                   what they carried tells their rates
    fast links   .              a model each        chosen by these rates: a slow link is never used again

A strategy may choose by the rates of links that it measures. A replay has every choice as it was, so that a link which
is slow, and was left alone for that, costs nothing in it, but the run may be much longer for the way round. And where
the strategy sends less over slow links, a faster one carries more. Where links share a line, a replay has each message
take as long whoever else sends, so that who is ahead gains by it even if the line is full. And what changes at some
moment changes at an iteration in a replay, though a run that is restored is further by then. So does what changes by
design, and a link that departs for a while: if it loses segments in the last third, and anything else is restored,
fewer messages are left to meet that. What a host takes longer for a while goes with its gradients in both.
And where batches follow the hosts' speed, one that is restored gets larger ones, and the others smaller ones.
So the strategy runs again, in the measured world, with each departure restored:

* links, and hosts that were slow for good (where batches follow their speed, for a while, too), if the world,
  unchanged, takes as long as the run did but for CLOSE: where iterations last longer, DLion's budgets are larger;
* whatever departs, if that world takes the SAME time, where messages are UNEVEN beside what departs: one that waited
  for TCP's window, which the one before it had used up, does so in a replay, though it is sent much later than that;
* links left alone, unless the world is FAR off: by how many times its own run is then shorter. Where there are some,
  brief slow-downs of hosts, too, for a long way round may hide them.

Among links that are alike, the least difference decides which are chosen, so that in the world another way may be as
fast: what is material in the replay, where the choice stays, is material, unless a line is shared. Not a whole layer:
once all of its links are faster, each is as likely to be chosen as before, or carries more. And where nothing is
chosen, a line that is immaterial in the replay, which has all of its messages faster, is so: in the world, where other
links stall when they did, a run that is a little ahead may miss what no other would.

Where segments are lost by design, luck decides what is measured: then times are means over several runs of the world
(:mod:`.resimulation.luck`).

A host's brief slow-downs alter little of what is measured over many iterations: what they cost the replay tells, which
is nearer to the run, unless the world takes the SAME time. What speeding up each element would bring the replay tells,
too, unless a line is shared: simulating all of them would take minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2c_dl.diagnosis.departures import Departure, findings
from e2c_dl.diagnosis.model import Chance, Element, ElementKind, Finding, Limitation, Part
from e2c_dl.diagnosis.observed import Observed
from e2c_dl.diagnosis.replay.replay import Replay
from e2c_dl.diagnosis.replay.whatif import Predictor, WhatIf
from e2c_dl.diagnosis.resimulation.luck import Laps, averaged
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.world import EVENTS, MeasuredWorld
from e2c_dl.diagnosis.stretches import When
from e2c_dl.trace.model import Trace
from e2c_dl.worlds.virtual.links import event_cost

FAR, CLOSE, SAME = 0.3, 0.05, 0.01
UNEVEN = 0.01  # of a run: messages on its longest path took so much longer than as many bytes usually do
MUCH = 0.05  # of a run: so much, left as it was, may hide what is material
PLAIN = 1.15  # times slower: less may be noise, and among links as fast as others anything alters which are chosen
TRIED = 8  # links left alone that are asked for at most, slowest first


@dataclass(frozen=True, kw_only=True)
class Choices:
    """A run whose strategy chose by measured rates, whose links share a line, or of which something changes with time.

    Made by :func:`choices`.
    """

    replay: Replay
    world: MeasuredWorld | None  # None: too large to be simulated again
    chose: bool  # else a line is shared, or something changes with time, and no more than that
    shared: bool = False  # whether links share a line
    batches: bool = False  # whether they follow the hosts' speed
    uneven: float | None = None  # of a run of nothing of all that: how much longer than usual messages took, UNEVEN
    laps: Laps | None = None  # of the world, where what ranks choose hangs on chance: on segments that are lost

    @property
    def chance(self) -> Chance | None:
        return None if self.laps is None else self.laps.chance

    def findings(
        self, worth: Sequence[Departure], departures: Sequence[Departure], excused: Sequence[Departure] = ()
    ) -> tuple[Finding, ...]:
        """One Finding for each of ``worth``, and for links among the other ``departures`` that were left alone.

        Jointly with those ``excused``, too.
        """
        if self.world is None:
            return findings(worth, self.replay, excused)
        rest = [each for each in departures if not any(each is other for other in worth)]
        plain = [each for each in rest if self.chose and _is_link(each.element) and each.slowdown >= PLAIN]
        left_alone = sorted(plain, key=lambda each: -each.slowdown)[:TRIED] if abs(self.world.error) <= FAR else []
        if self.laps is not None:
            return findings([*worth, *left_alone], self.laps, excused)
        replayed = findings(worth, self.replay, excused)
        if abs(self.world.error) > self.near:
            kept = replayed
        elif left_alone or abs(self.world.error) <= SAME:
            kept = ()  # jointly, with these restored, all of them may cost more than a replay knows
        else:
            kept = tuple(each for each in replayed if not (self.batches or _is_measured(each)))
        if len(kept) == len(worth) and not left_alone:
            return kept
        again = findings([*worth, *left_alone], self.world, excused)
        immaterial = {_of(each) for each in again if not each.material} - {_of(each) for each in kept}
        if self.chose and not self.world.bottlenecks:
            kept += tuple(
                each for each in replayed
                if each.material and _of(each) in immaterial and each.element.kind is not ElementKind.GROUP
            )  # fmt: skip
        if not self.chose:
            lines = (each for each in replayed if each.element.kind is ElementKind.SHARED and not each.material)
            kept += tuple(each for each in lines if _of(each) not in {_of(own) for own in kept})
        told = {_of(each) for each in kept}
        found = (*kept, *(each for each in again if _of(each) not in told))
        return tuple(sorted(found, key=lambda one: (-one.saved_s, -one.joint_speedup)))

    @property
    def near(self) -> float:
        """How far off, as part of the run's time, the world may be for its savings to be told."""
        return CLOSE if self.uneven is None else SAME

    @property
    def predictor(self) -> Predictor:
        """What tells what speeding up each element would bring."""
        world = self.world
        return world if world is not None and world.bottlenecks and abs(world.error) <= self.near else self.replay

    @property
    def replayed(self) -> bool:
        """Whether the strategy may choose otherwise, and nobody knows what comes of that."""
        return self.chose and bool(self.limitations)

    @property
    def limitations(self) -> tuple[Limitation, ...]:
        """What of the choices, or of the line, is not known."""
        if self.uneven is not None and self.uneven < MUCH:
            return ()
        if self.world is None:
            why = "this run is too large to be simulated again"
        elif abs(self.world.error) > self.near:
            why = f"simulated again as it was, the run is {self.world.error:+.1%} off"
        else:
            return ()
        if self.chose:
            replayed = "The strategy chooses by rates that it measures, and savings are of a replay of its choices"
        elif self.shared:
            replayed = "Links share a line, and savings are of a replay, where messages take as long whoever else sends"
        elif self.batches:
            replayed = "Batches follow hosts' speed, and savings are of a replay, where they stay what they were"
        elif self.uneven is not None:
            replayed = "Messages took unevenly long, and savings are of a replay, where they do so again"
        else:
            replayed = "Something changes with time, and savings are of a replay, where it does with iterations"
        return (Limitation(sentence=f"{replayed}: {why}."),)


def _of(finding: Finding) -> tuple[Element, Part]:
    return finding.element, finding.part


def _is_link(element: Element) -> bool:
    return element.kind is not ElementKind.HOST


def _is_measured(finding: Finding) -> bool:
    """Whether the strategy has measured it, and chosen by that."""
    return _is_link(finding.element) or finding.when.when in (When.PERSISTENT, When.SINCE)


def come_and_go(worth: Sequence[Departure]) -> bool:
    """Whether links of one of ``worth`` depart for some of the time: they meet other messages with another restored."""
    brief = (each for each in worth if each.when.when is not When.PERSISTENT)
    return len(worth) > 1 and any(
        change.element.kind is ElementKind.LINK for each in brief for change in each.restored.changes
    )


def unevenness(observed: Observed, restored: Sequence[WhatIf]) -> float | None:
    """How much longer messages on the longest path of the run ``observed`` took than as many bytes usually do.

    As part of the run, all ``restored``; None, if that is not UNEVEN. They waited for windows that earlier ones had
    used up, or that opened: as something is restored, they may not.
    """
    found = observed.replay.uneven(WhatIf.together(restored))
    return found if found >= UNEVEN else None


def anew(
    retraining: Retraining | None, observed: Observed, worth: Sequence[Departure]
) -> tuple[Retraining | None, float | None]:
    """``retraining``, if it can simulate the run again, and a replay does not tell what ``worth`` cost.

    And how uneven messages are, if that is why.
    """
    if retraining is None or retraining.problem(observed.whole):
        return None, None
    if retraining.decided_anew:
        return retraining, None
    if not worth or retraining.hears_verdicts:
        return None, None
    if come_and_go(worth):
        return retraining, None
    uneven = unevenness(observed, [each.restored for each in worth])
    return None if uneven is None else retraining, uneven


def about_repeating(retraining: Retraining | None, trace: Trace, *, own_pace: bool) -> Iterator[Limitation]:
    """That the run of ``trace`` would have to be simulated again to tell what a change brings, and cannot be.

    ``own_pace``: its ranks did not do equally many iterations.
    """
    problem = "its archive does not tell all that it takes" if retraining is None else retraining.problem(trace)
    if problem is not None and (own_pace if retraining is None else retraining.decided_anew):
        replayed = "savings and bottlenecks are of a replay, in which nobody decides otherwise"
        yield Limitation(sentence=f"This run cannot be simulated again ({problem}): {replayed}.")


def choices(
    observed: Observed, retraining: Retraining, worth: Sequence[Departure], uneven: float | None
) -> Choices:  # fmt: skip
    """Those of the run ``observed``, whose trace is whole and which has departures that are ``worth`` restoring.

    ``uneven``: its :func:`unevenness`, if that is why it is simulated again.
    """
    lines = () if retraining.tcp else retraining.bottlenecks  # of a tcp, each queue serves one after another
    large = len(observed.messages.joined) * event_cost(lines) > EVENTS
    world = None if large else observed.world(retraining)
    unsure = world is not None and retraining.chooses and abs(world.error) <= CLOSE
    laps = averaged(world, [each.restored for each in worth]) if world is not None and unsure else None
    shared = bool(retraining.bottlenecks)
    return Choices(
        replay=observed.replay, world=world, chose=retraining.chooses, shared=shared,
        batches=retraining.batches_change, laps=laps, uneven=uneven,
    )  # fmt: skip
