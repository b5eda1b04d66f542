"""All orders of events of a few ranks: every state that they can reach, each once.

::

    state     what each rank has become, and the messages on their way: from one rank to another, those of one kind in
              order (of unlike kinds, either may overtake the other: more than any world does)
    event     a task of a rank goes on; before, some of what is on its way to it arrives

A message that nobody looks at might as well arrive later. So what arrives is chosen when a step looks at messages, of
the kinds that it looks at, in every order and number; of those that are waited for by their key, that one alone, and
what is before it on its way.

Partial-order reduction: a rank whose one task goes on with a message by its key, looks at nothing else and begins no
iteration, goes on alike whenever it does, and nothing that others do keeps it from going on, or gives it a choice. So
it goes first: other orders come to the same states of all that laws look at (an ample set: Clarke, Grumberg and Peled,
Model Checking, chapter 10; no state comes again, as histories only grow).

States of the world are combinations of those of single ranks (ranks.py), so that exploring them runs no strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.schedules.rank import Sent, Step, World, fits, matters_to
from benchmarks.schedules.ranks import Node, Ranks

DEADLOCK = "deadlock: these ranks wait for ever"
LEFT = "all have ended, and messages are left that nobody took"


class Violated(Exception):
    """A law does not hold; ``schedule``: the events that led there."""

    def __init__(self, law: str, schedule: Sequence[str]) -> None:
        super().__init__(f"{law}; the last of {len(schedule)} events: {'; '.join(schedule[-8:])}")
        self.law, self.schedule = law, schedule


Inbox = tuple[tuple[tuple[int, str], tuple[Sent, ...]], ...]
"""What is on its way to one rank: (src, kind), and messages in order; sorted, none empty."""
State = tuple[int, ...]
"""The number of each rank's node, then that of each rank's inbox."""
Move = tuple[Step, int, int, tuple[tuple[int, tuple[Sent, ...]], ...]]
"""A step; the numbers of node and inbox after it; what it sends, by destination."""


@dataclass
class Found:
    """What an exploration covered."""

    states: int = 0  # of all ranks together, with the messages on their way
    events: int = 0  # between them
    ends: int = 0  # states in which all have ended
    of_ranks: int = 0  # states of single ranks
    histories: int = 0  # of single ranks that were tried
    deepest: int = 0  # events until a state
    ahead: dict[tuple[int, int], int] = field(default_factory=dict)  # (i, j) -> how far i ever was ahead of j


class Explorer:
    """States of ``world``. ``bounds[i, j]``: iterations that rank i may be ahead of rank j.

    Without ``reducing``, every order is gone through, also of events that do not matter to each other.

    Raises, while it explores: Violated, of a bound, a deadlock, and messages that nobody takes.
    """

    def __init__(
        self, world: World, bounds: Mapping[tuple[int, int], int], *, merging: bool = True, reducing: bool = True
    ) -> None:
        self.ranks = Ranks(world, merging=merging)
        self._reducing = reducing
        self._size, self._bounds = world.size, bounds
        self._nodes: list[Node] = []
        self._inboxes: list[Inbox] = [()]
        self._numbers: dict[Node | Inbox, int] = {(): 0}
        self._moves: dict[tuple[int, int], tuple[list[Move], bool]] = {}  # by node and inbox; whether they go first
        self._posts: dict[tuple[int, int, tuple[Sent, ...]], int] = {}
        begin = [self._of_node(edge.node) for edge in self.ranks.begin]
        first: State = (*begin, *[0] * self._size)
        for rank, edge in enumerate(self.ranks.begin):
            first = self._posted(first, rank, _by_destination(edge.sent))
        self.first = first

    def all(self, told: Callable[[Found], None] = lambda _: None, every: int = 200_000) -> Found:
        """Every state that can be reached."""
        found = Found()
        before: dict[State, State | None] = {self.first: None}
        waiting = [(self.first, 0)]
        while waiting:
            state, depth = waiting.pop()
            found.states += 1
            found.deepest = max(found.deepest, depth)
            ended = True
            for rank, move in self._next(state):
                ended = False
                found.events += 1
                after = self._moved(state, rank, move)
                if after not in before:
                    before[after] = state
                    waiting.append((after, depth + 1))
            self._check(state, ended, found, before)
            if found.states % every == 0:
                told(found)
        found.of_ranks, found.histories = self.ranks.states, self.ranks.histories
        return found

    def _check(self, state: State, ended: bool, found: Found, before: Mapping[State, State | None]) -> None:
        nodes = [self._nodes[number] for number in state[: self._size]]
        for (one, other), most in self._bounds.items():
            ahead = nodes[one].begun - nodes[other].begun
            if ahead > found.ahead.get((one, other), -1):
                found.ahead[one, other] = ahead
            if ahead > most:
                raise Violated(too_far(one, other, ahead, most), self._way(before, state))
        if ended:
            waiting = ", ".join(str(node.rank) for node in nodes if not node.done)
            if waiting:
                raise Violated(f"{DEADLOCK}: {waiting}", self._way(before, state))
            if any(state[self._size :]) or any(node.unread for node in nodes):
                raise Violated(LEFT, self._way(before, state))
            found.ends += 1

    def _next(self, state: State) -> list[tuple[int, Move]]:
        """Who may go on, and how; of those that may go first, one."""
        found: list[tuple[int, Move]] = []
        for rank in range(self._size):
            key = state[rank], state[self._size + rank]
            if key not in self._moves:
                node = self._nodes[key[0]]
                moves = list(self._steps(node, dict(self._inboxes[key[1]])))
                self._moves[key] = moves, self._reducing and self._goes_first(node, moves)
            moves, first = self._moves[key]
            if first:
                return [(rank, move) for move in moves]
            found += [(rank, move) for move in moves]
        return found

    def _goes_first(self, node: Node, moves: Sequence[Move]) -> bool:
        """Whether ``moves`` of a rank come to the same before and after whatever others do, and no law sees them."""
        if not moves or len(node.waits) > 1:
            return False
        edges = [edge for step, *_ in moves for _, edge in self.ranks.edges(node, step.task, step.came)]
        waits = node.waits[moves[0][0].task]
        return (waits is None or waits[0] == "key") and not any(
            edge.looked or edge.node.begun != node.begun for edge in edges
        )

    def _moved(self, state: State, rank: int, move: Move) -> State:
        _, node, inbox, sent = move
        after = list(state)
        after[rank], after[self._size + rank] = node, inbox
        return self._posted(tuple(after), rank, sent) if sent else tuple(after)

    def _posted(self, state: State, src: int, sent: Sequence[tuple[int, tuple[Sent, ...]]]) -> State:
        after = list(state)
        for dst, messages in sent:
            key = after[self._size + dst], src, messages
            number = self._posts.get(key)
            if number is None:
                links = dict(self._inboxes[key[0]])
                for each in messages:
                    links[src, each.kind] = (*links.get((src, each.kind), ()), each)
                number = self._posts[key] = self._of_inbox(links)
            after[self._size + dst] = number
        return tuple(after)

    def _steps(self, node: Node, links: Mapping[tuple[int, str], tuple[Sent, ...]]) -> Iterator[Move]:
        """All ways in which ``node`` can go on, by task and by what arrives before."""
        for task, waits in node.waits.items():
            waiting: list[tuple[Sent, ...]] = [()]
            while waiting:
                came = waiting.pop()
                kinds: set[str] = set()
                still = waits
                if waits is None or any(fits(waits, each) for each in came):
                    still = None
                    for step, edge in self.ranks.edges(node, task, came):
                        kinds |= edge.looked
                        yield step, self._of_node(edge.node), self._left(links, came), _by_destination(edge.sent)
                for (src, kind), link in links.items():
                    count = sum(each.src == src and each.kind == kind for each in came)
                    if count < len(link) and matters_to(still, kinds, src, kind):
                        waiting.append((*came, link[count]))

    def _left(self, links: Mapping[tuple[int, str], tuple[Sent, ...]], came: Sequence[Sent]) -> int:
        left = dict(links)
        for sent in came:
            left[sent.src, sent.kind] = left[sent.src, sent.kind][1:]
        return self._of_inbox(left)

    def _of_node(self, node: Node) -> int:
        number = self._numbers.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
        return number

    def _of_inbox(self, links: Mapping[tuple[int, str], tuple[Sent, ...]]) -> int:
        inbox = tuple(sorted((key, link) for key, link in links.items() if link))
        number = self._numbers.setdefault(inbox, len(self._inboxes))
        if number == len(self._inboxes):
            self._inboxes.append(inbox)
        return number

    def _way(self, before: Mapping[State, State | None], state: State) -> list[str]:
        """The events that led to ``state``."""
        events = []
        while (previous := before[state]) is not None:
            steps = [
                (rank, move[0]) for rank, move in self._next(previous) if self._moved(previous, rank, move) == state
            ]
            events.append(told_as(*steps[0]))
            state = previous
        return events[::-1]


def too_far(one: int, other: int, ahead: int, most: int) -> str:
    """The law that is broken."""
    return f"rank {one} is {ahead} iterations ahead of rank {other}, {most} are allowed"


def _by_destination(sent: Sequence[tuple[int, Sent]]) -> tuple[tuple[int, tuple[Sent, ...]], ...]:
    found: dict[int, tuple[Sent, ...]] = {}
    for dst, message in sent:
        found[dst] = (*found.get(dst, ()), message)
    return tuple(found.items())


def told_as(rank: int, step: Step) -> str:
    """An event, for people."""
    came = ", ".join(f"{each.kind} {each.iteration} of {each.src}" for each in step.came)
    return f"rank {rank} goes on" + (f" with {came}" if came else "")
