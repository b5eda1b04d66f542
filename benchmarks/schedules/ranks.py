"""States that single ranks can be in, each found once.

A rank's own states are found by making it again from its history and letting one more step happen, once; those that
will do the same are one (state.py).

Partial-order reduction: a step that looks at no message, draws nothing, begins no iteration, and changes nothing that
another task of its rank can reach, cannot matter to when others happen. It is part of the step before; the states in
between are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.schedules.rank import NeedsDraw, Rank, Sent, Step, Wait, World

MOST_TWINS = 300
"""Merged histories of one world, about, that are tried again."""


@dataclass(eq=False)
class Node:
    """One state of one rank. ``waits``: by task that has not ended; ``begun``: its iteration."""

    rank: int
    history: tuple[Step, ...]
    waits: Mapping[int, Wait]
    begun: int
    unread: int
    tasks: Mapping[int, object]  # what each can reach
    live: Rank | None  # made already, until something else happens to it
    steps: dict[Step, Edge | int] = field(default_factory=dict)  # a number: so many outcomes must be chosen from
    closed: dict[tuple[int, tuple[Sent, ...]], list[tuple[Step, Edge]]] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether its strategy has returned."""
        return 0 not in self.waits


@dataclass(frozen=True)
class Edge:
    """What a step leads to, what it sends, and at which kinds of messages it looks."""

    node: Node
    sent: tuple[tuple[int, Sent], ...]
    looked: frozenset[str]
    task: int = 0  # that went on


class Ranks:
    """The states of single ranks that were met so far. Without ``merging``, each history is one."""

    def __init__(self, world: World, *, merging: bool = True) -> None:
        self._world, self._merging = world, merging
        self._known: list[dict[object, Node]] = [{} for _ in range(world.size)]
        self._twins: list[tuple[Node, tuple[Step, ...]]] = []
        self.histories = 0  # that were tried
        self.begin = [self._closed(self._after(rank, (), Rank(world, rank))) for rank in range(world.size)]

    @property
    def states(self) -> int:
        return sum(map(len, self._known))

    def edges(self, node: Node, task: int, came: tuple[Sent, ...]) -> list[tuple[Step, Edge]]:
        """The ways in which ``task`` may go on when ``came`` has arrived: one for each outcome of what it draws."""
        if (task, came) not in node.closed:
            ways = self._ways(node, Step(task, came))
            node.closed[task, came] = [(step, self._closed(edge)) for step, edge in ways]
        return node.closed[task, came]

    def _ways(self, node: Node, step: Step) -> list[tuple[Step, Edge]]:
        found, waiting = [], [step]
        while waiting:
            step = waiting.pop()
            if step not in node.steps:
                node.steps[step] = self._tried(node, step)
            edge = node.steps[step]
            if isinstance(edge, Edge):
                found.append((step, edge))
            else:
                waiting += [step._replace(draws=(*step.draws, outcome)) for outcome in range(edge)]
        return found

    def unlike(self) -> int:
        """How many merged histories were tried again, step by step: that each does what its state does is asserted."""
        twins = self._twins[:: max(1, len(self._twins) // MOST_TWINS)]  # a copy: trying them finds more
        for node, history in twins:
            for step, known in node.steps.items():
                if isinstance(known, Edge):
                    made = self._made(node.rank, history)
                    made.happen(step)
                    edge = self._after(node.rank, (*history, step), made)
                    assert edge == known, f"{node.rank}: {history} is not {node.history}: {step} leads elsewhere"
        return len(twins)

    def _tried(self, node: Node, step: Step) -> Edge | int:
        self.histories += 1
        made = node.live or self._made(node.rank, node.history)
        node.live = None
        try:
            made.happen(step)
        except NeedsDraw as needs:
            return needs.outcomes
        return self._after(node.rank, (*node.history, step), made)

    def _closed(self, edge: Edge) -> Edge:
        """``edge``, and all steps after it that cannot matter to others."""
        sent, node = list(edge.sent), edge.node
        while edge.task in node.waits and node.waits[edge.task] is None:
            ((_, after), *others) = self._ways(node, Step(edge.task))
            others_of = (node.tasks.keys() | after.node.tasks.keys()) - {edge.task}
            touched = any(node.tasks.get(task) != after.node.tasks.get(task) for task in others_of)
            if others or after.looked or touched or after.node.begun != node.begun:
                break
            sent += after.sent
            node = after.node
        return Edge(node, tuple(sent), edge.looked, edge.task)

    def _made(self, rank: int, history: Sequence[Step]) -> Rank:
        made = Rank(self._world, rank)
        for step in history:
            made.happen(step)
        return made

    def _after(self, rank: int, history: tuple[Step, ...], made: Rank) -> Edge:
        sent, looked = tuple(made.worker.sent), frozenset(made.worker.looked)
        tasks = made.states()
        state = (tuple(tasks.items()), made.unread(), made.worker.iteration) if self._merging else history
        node = self._known[rank].get(state)
        if node is None:
            waits, mail = made.waits(), len(made.worker.mail)
            node = self._known[rank][state] = Node(rank, history, waits, made.worker.iteration, mail, tasks, made)
        elif history != node.history:
            self._twins.append((node, history))
        return Edge(node, sent, looked, history[-1].task if history else 0)
