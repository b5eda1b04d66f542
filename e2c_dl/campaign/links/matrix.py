"""Requested beside measured, link by link, on hosts that are up: what `e2c-dl emulate measure` does.

::

    round 1   edge-1 -> fog-1    edge-2 -> cloud-1     side by side: no host twice, no bottleneck twice
    round 2   fog-1 -> edge-1    ...                   hosts of one machine: as many as it has cores to spare
    ...
    then      each bottleneck: all its links at once   the sum of what came through
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import TracebackType

from e2c_dl import typed
from e2c_dl.campaign.links.targets import Target
from e2c_dl.emulation.link_values import link_to_json
from e2c_dl.emulation.measuring import expected
from e2c_dl.emulation.measuring.fidelity import BottleneckFidelity, LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured, Share
from e2c_dl.emulation.measuring.quick import CAP_BPS, OVERLOAD, rounds
from e2c_dl.errors import EmulationError, InputError
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.programs import ask, side_by_side
from e2c_dl.topology import Bottleneck, Pair

SECONDS = {"quick": 2.0, "thorough": 9.0}
"""About what one link takes, for people who wait."""

PROBER = ("-m", "e2c_dl.emulation.measuring.main")
READY_S, STOP_S = 30.0, 5.0  # of a responder
SHARE_S, SHARE_AHEAD_S = 3.0, 3.0  # measuring a bottleneck; starting its programs before that, all at one time
CORES_PER_LINK = 2  # of one machine: a sender and a receiver, the relay between them

Tell = Callable[[str, float], None]
"""Called with what was just measured and how many links that were."""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """What was measured, and why the rest was not."""

    links: tuple[LinkFidelity, ...]
    bottlenecks: tuple[BottleneckFidelity, ...] = ()
    failures: tuple[str, ...] = field(default_factory=tuple)

    def deviations(self) -> tuple[str, ...]:
        found = [sentence for row in self.links for sentence in row.deviations()]
        return (*found, *(sentence for row in self.bottlenecks for sentence in row.deviations()))

    def limitations(self) -> tuple[str, ...]:
        return tuple(sentence for row in self.links for sentence in row.limitations())


def selected(hosts: Target, patterns: Sequence[str]) -> list[Pair]:
    """The links that ``patterns`` (``SRC:DST``, as in a shell: ``edge-*:fog-1``) name; without any, those shaped.

    Raises: InputError for a pattern that names none.
    """
    names = sorted(hosts.accesses)
    if not patterns:
        return [pair for pair in sorted(hosts.requested.links) if {*pair} <= {*names}] or _all(names)
    found: list[Pair] = []
    for pattern in patterns:
        src, colon, dst = pattern.partition(":")
        named = [pair for pair in _all(names) if fnmatchcase(pair[0], src) and fnmatchcase(pair[1], dst)]
        if not colon or not named:
            raise InputError(f"--pairs {pattern}: names no link; write SRC:DST, such as edge-*:{names[-1]}")
        found += [pair for pair in named if pair not in found]
    return found


def at_once(hosts: Target, cores: int) -> int:
    """How many links may be measured side by side; hosts of this machine share its ``cores``."""
    if any(access.netns_pid is not None for access in hosts.accesses.values()):
        return max(1, cores // CORES_PER_LINK)
    return max(1, len(hosts.accesses) // 2)


def measure(hosts: Target, pairs: Sequence[Pair], how: str, tell: Tell = lambda what, links: None) -> Matrix:
    """The matrix of ``pairs``; links that could not be measured are in it, and in ``failures``.

    ``how``: quick or thorough; thoroughly, bottlenecks with all their links among ``pairs`` are measured full too.
    Raises: EmulationError when a host cannot be reached at all.
    """
    limit = at_once(hosts, len(os.sched_getaffinity(0)))  # more would measure this machine's processors
    names = sorted({name for pair in pairs for name in pair})
    failures: list[str] = []
    links: list[LinkFidelity] = []
    with Responders([hosts.accesses[name] for name in names]) as responders:
        with side_by_side(limit) as pool:
            for members in _split(rounds(pairs, hosts.requested.bottlenecks), limit):
                seen = pool.map(lambda pair: _one(hosts, pair, how, responders.ports), members)
                for (src, dst), measured in zip(members, seen, strict=True):
                    failures += [f"{src} -> {dst}: {measured}"] if isinstance(measured, EmulationError) else []
                    found = measured if isinstance(measured, Measured) else None
                    row = LinkFidelity.of(src, dst, designed=hosts.designed, requested=hosts.requested, measured=found)
                    links.append(row)
                    tell(f"{src} -> {dst}", 1)
        # with a link left out, the others' shares are larger
        full = [each for each in hosts.requested.bottlenecks if {*each.links} <= {*pairs}] if how == "thorough" else []
        bottlenecks = []
        for each in full:
            tell(f"bottleneck {each.name}", 0)
            try:
                bottlenecks.append(_full(hosts, each, responders.ports))
            except EmulationError as error:
                failures.append(f"bottleneck {each.name}: {error}")
    order = {pair: number for number, pair in enumerate(pairs)}
    links.sort(key=lambda row: order[row.src, row.dst])  # rounds have their own order
    return Matrix(links=tuple(links), bottlenecks=tuple(bottlenecks), failures=tuple(failures))


def _one(hosts: Target, pair: Pair, how: str, ports: Mapping[str, int]) -> Measured | EmulationError:
    src, dst = pair
    request = {
        **_ends(hosts, pair, ports),
        "how": how,
        "there": link_to_json(expected.alone(hosts.requested, src, dst)),
        "back": link_to_json(expected.alone(hosts.requested, dst, src)),
    }
    try:
        return typed.convert(ask(hosts.accesses[src], (*PROBER, "measure"), request), Measured)
    except EmulationError as error:
        return error


def _full(hosts: Target, bottleneck: Bottleneck, ports: Mapping[str, int]) -> BottleneckFidelity:
    """``bottleneck`` with all its links full at the same time. Raises: EmulationError."""
    offered = expected.shares(hosts.requested, bottleneck, min(OVERLOAD * bottleneck.rate_bps, CAP_BPS))
    begin_s = time.time() + SHARE_AHEAD_S  # wall clock: other hosts share no other

    def one(pair: Pair) -> Share:
        request = {**_ends(hosts, pair, ports), "how": "share", "offered_bps": offered[pair], "seconds": SHARE_S}
        argv = (*PROBER, "measure")
        return typed.convert(ask(hosts.accesses[pair[0]], argv, request | {"begin_s": begin_s}), Share)

    with side_by_side(len(bottleneck.links)) as pool:
        shares = tuple(zip(bottleneck.links, pool.map(one, bottleneck.links), strict=True))
    requested_bps = sum(expected.shares(hosts.requested, bottleneck, bottleneck.rate_bps).values())
    return BottleneckFidelity(name=bottleneck.name, requested_bps=requested_bps, shares=shares)


def _ends(hosts: Target, pair: Pair, ports: Mapping[str, int]) -> dict[str, str | int]:
    src, dst = pair
    addresses = {"src_address": hosts.accesses[src].data_address, "dst_address": hosts.accesses[dst].data_address}
    return {**addresses, "port": ports[dst]}


def _split(parts: Sequence[list[Pair]], limit: int) -> Iterator[list[Pair]]:
    for part in parts:
        for begin in range(0, len(part), limit):
            yield part[begin : begin + limit]


def _all(names: Sequence[str]) -> list[Pair]:
    return [(src, dst) for src in names for dst in names if src != dst]


class Responders:
    """One measuring program on every host of ``accesses``, from entering until leaving; ``ports`` says where.

    Raises: EmulationError, on entering, for the first host that has none.
    """

    def __init__(self, accesses: Sequence[Access]) -> None:
        self._accesses, self._stack = accesses, ExitStack()
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Responders:
        with ExitStack() as stack:
            started = [(access, self._start(access, stack)) for access in self._accesses]  # side by side
            for access, process in started:
                self.ports[access.name] = _port(access, process)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, access: Access, stack: ExitStack) -> subprocess.Popen[str]:
        argv = programs.python(access, *PROBER, "respond", access.data_address)
        process = subprocess.Popen(
            # the end of its input ends it, also over ssh, where a signal would end ssh alone
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,  # Ctrl-C ends what this process does, then this process ends them
        )  # fmt: skip
        stack.callback(_stop, process)
        return process


def _port(access: Access, process: subprocess.Popen[str]) -> int:
    stdout = process.stdout
    if stdout is None or not select.select([stdout], [], [], READY_S)[0]:
        raise EmulationError(f"host {access.name}: its responder is not ready after {READY_S:g} s; is it reachable?")
    line = stdout.readline()
    if '"port"' in line:
        return int(json.loads(line)["port"])
    process.kill()
    rest, said = process.communicate()  # killed first: it may be waiting still, and its last words are wanted
    return int(programs.read(access, line + rest, said, process.returncode).checked(access)["port"])


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends by the end of its input; by force if it does not."""
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    except (BrokenPipeError, ValueError):  # it is gone already, and its pipes are closed
        process.wait()
