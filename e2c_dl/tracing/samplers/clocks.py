"""Clocks of a traced script's hosts: the first rank serves its own, all others ask it while the script trains.

::

    on_ready          who is on the reference's machine has its clock already; a thread asks for all others:
    0 s               100 rounds, at the address of the reference that answers fastest
    every second      4 rounds
    on_end            up to 100 rounds in half a second, if the reference is there; it waits as long for all others

Beside them each rank looks every two seconds at the time of day, by which traces that its script makes are placed.
Asked first are those addresses that training does not use, as far as the launcher has said which these are: they are
the management network's. A script has no barriers to lend, so that its own messages may delay answers: bounds are wider
then, and still hold, until the end too.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.errors import ArchiveError, E2cDlError, TrainingError
from e2c_dl.trace.clocks import time_of_day
from e2c_dl.trace.clocks.clock import EVERY_S, LAST_WITHIN_S, ClockServer, ReferenceClock, exchange
from e2c_dl.trace.clocks.questions import Clock
from e2c_dl.trace.clocks.time_of_day import PairsKept
from e2c_dl.trace.clocks.timekeeping import timekeeping
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.trace.recording.errands import unsignalled
from e2c_dl.tracing.addresses import training_addresses
from e2c_dl.tracing.rendezvous import Peer, Ranks
from e2c_dl.tracing.samplers.sampler import Recording, Sampler

OFFER, TRAINS_AT = "clock", "trains_at"
_TRIED_ROUNDS = 4
_TRIED_WITHIN_S = (0.3, 1.0)  # at each address; the second, if none answered in the first: some hosts are far away
_ALONE_WITHIN_S = 0.1  # what keeps a clock is asked in some 20 ms
_JOIN_WITHIN_S = 3.0  # an exchange under way ends by its own time-outs


class Clocks(Sampler):
    """A sampler: writes clock.json, again after each exchange; what keeps its clock, and ``wall_clock``, of facts.json.

    ``clock`` is the host's own, ``of_day`` tells the time of day.
    """

    def __init__(self, clock: Clock = time.monotonic_ns, of_day: Clock = time.time_ns) -> None:
        self._clock = clock
        self._times_of_day = PairsKept(clock, of_day)
        self._server: ClockServer | None = None
        self._recording: Recording | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._askers = 0
        self._reference: ReferenceClock | None = None
        self._problem = ""

    def offers(self) -> Mapping[str, Any]:
        """Where to ask this rank, should it be the reference."""
        try:
            self._server = _server(self._clock)
        except TrainingError as error:
            self._problem = str(error)
            return {}
        return {OFFER: [self._server.port, self._server.token], TRAINS_AT: training_addresses(os.environ)}

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """The first rank goes on serving; others ask it from now on, from a thread of their own."""
        self._recording = recording
        self._times_of_day.look()
        recording.errands.add(self._look_at_the_day, time_of_day.EVERY_S)
        reference, own = ranks.peers[0], ranks.own
        others = sum(peer.boot != own.boot for peer in ranks.peers)
        if own.rank != reference.rank or not others:
            self._close()
        else:
            self._askers = others
        if reference.rank:
            recording.limited(f"rank 0 is not traced: clocks are aligned to rank {reference.rank}'s")
        if others and own.boot != reference.boot and OFFER not in reference.offers:
            recording.limited(f"its clock is not aligned to the others': rank {reference.rank} serves none")
            return
        asked = reference if own.boot != reference.boot else None
        work = (asked, recording.folder)
        self._thread = threading.Thread(target=self._follow, args=work, name="clocks", daemon=True)
        with unsignalled():
            self._thread.start()
        if len(ranks.peers) == 1:  # iterations are under way, which it would slow down; others' begin later
            self._thread.join(_ALONE_WITHIN_S)

    def on_end(self) -> None:
        """The alignment holds until now; whatever could not be done is said."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_JOIN_WITHIN_S)
        if self._server is not None:
            self._server.wait_for(self._askers)
        self._close()
        if self._recording is None:
            return
        self._recording.errands.remove(self._look_at_the_day)
        self._times_of_day.look()
        records = HostRecords(self._recording.folder)
        if self._reference is not None and self._reference.least_round_trip_ns is not None:
            records.write_clock(_last(self._reference))
        elif self._problem:
            self._recording.limited(f"its clock is not aligned to the others': {self._problem}")
        kept = timekeeping(within_s=LAST_WITHIN_S)  # last: nobody waits for it
        records.amend_facts(wall_clock=self._times_of_day.pairs(), timekeeping_at_end=kept)

    def _look_at_the_day(self) -> float | None:
        """Seconds until the next look; None: what was seen could not be written, as is said."""
        if self._recording is None:
            return None
        try:
            if self._times_of_day.look():  # seldom; a kill costs no more than what came since
                HostRecords(self._recording.folder).amend_facts(wall_clock=self._times_of_day.pairs())
        except ArchiveError as error:
            self._recording.limited(f"when its time of day was set is not known from here on: {error}")
            return None
        return time_of_day.EVERY_S

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _follow(self, reference: Peer | None, folder: Path) -> None:
        """What the thread does: never raises into the script, whose standard error is its own."""
        try:
            HostRecords(folder).amend_facts(timekeeping=timekeeping())
            if reference is not None:
                self._ask(reference, HostRecords(folder))
        except (E2cDlError, OSError) as error:
            self._problem = str(error)

    def _ask(self, reference: Peer, records: HostRecords) -> None:
        port, token = reference.offers[OFFER]
        avoided = reference.offers.get(TRAINS_AT, ())
        self._reference = ReferenceClock(_address(reference.addresses, avoided, port, token), port, token, self._clock)
        records.write_clock(self._reference.exchange())
        while not self._over.wait(EVERY_S):
            with contextlib.suppress(TrainingError):  # others tell what this one would have
                records.write_clock(self._reference.exchange_few())


def _server(clock: Clock) -> ClockServer:
    """One that answers on every address of this host. Raises: TrainingError."""
    with unsignalled():
        try:
            return ClockServer("::", clock)  # both families, where there is IPv6
        except TrainingError:
            return ClockServer("0.0.0.0", clock)


def _last(reference: ReferenceClock) -> ClockAlignment:
    """The alignment after a last exchange; if the reference has gone, as far as it is known: less certain by now."""
    try:
        return reference.exchange_last()
    except TrainingError:
        return reference.until_now()


def _address(addresses: Sequence[str], avoided: Collection[str], port: int, token: int) -> str:
    """That of ``addresses`` at which answers take the shortest time; an ``avoided`` one if no other answers as soon.

    Raises: TrainingError, if none does.
    """
    apart = ([each for each in addresses if each not in avoided], [each for each in addresses if each in avoided])
    for within_s, some in product(_TRIED_WITHIN_S, apart):
        found = _answering(some, port, token, within_s)
        if found:
            return min(found, key=lambda address: found[address])
    tried = ", ".join(addresses) or "no address"
    raise TrainingError(f"the reference clock answers at none of {tried}; let UDP port {port} pass")


def _answering(addresses: Iterable[str], port: int, token: int, within_s: float) -> dict[str, int]:
    """Address -> half the shortest way there and back, ns; without those that do not answer."""
    found = {}
    for address in addresses:
        if ipaddress.ip_address(address).is_link_local:  # it means another host on each interface
            continue
        with contextlib.suppress(TrainingError):
            seen = exchange(address, port, token, rounds=_TRIED_ROUNDS, within_s=within_s, enough=1, listened=True)
            found[address] = min(each.uncertainty_ns for each in seen)
    return found
