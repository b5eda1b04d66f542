"""What every number in a report means: one sentence each, printed on the page that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DEFINITIONS: Mapping[str, str] = MappingProxyType(
    {
        "Run time": "From the start of the first worker's first iteration to the end of the last worker's last one.",
        "Iteration": "Median over iterations of the slowest worker's time.",
        "Compute": "The worker draws data, runs forward or backward, adds vectors, steps the optimizer, or evaluates.",
        "Exposed propagate": "No computation, and a message from or to this worker is on its way: communication that "
        "computation does not hide.",
        "Wait": "No computation, nothing on its way from or to this worker, and its tasks wait for others.",
        "Other": "None of these: the time the program itself takes. The four states sum to the worker's wall time.",
        "Designed": "What the scenario says of a link. Delays are one way; rates count Ethernet frames with headers.",
        "Requested": "What the emulator was told: the design, plus departures injected on purpose.",
        "Measured": "What a probe measured on the idle link before training; the round trip covers both directions.",
        "Used": "Median over training's messages of bits per second while the message was on the link.",
        "Slow-down": "Observed over asked for: of a host the time of its median iteration's computation, of a link the "
        "time its messages took, at the rate asked for at that moment beside whoever else was busy. 1.0 is as asked.",
        "Stood still": "Of a link: a message took 2 s and ten times longer than asked. Of a host: its process was not "
        "seen to run meanwhile, or a gradient took that much longer than usual.",
        "Saving": "The run replayed from its trace, now minus with that element as asked for (culprits; where others "
        "hide it, with those as asked already) or twice as fast (bottlenecks).",
        "Bottleneck": "The host, link or rate shared by links whose speed-up would save most. It always exists and is "
        "often slow by design.",
        "Culprit": "An element that departs from what the scenario asked for, where a run without the departure is at "
        "least 5 % faster.",
        "Replay error": "How far the replay of the unchanged trace is from the run itself; savings are not better than "
        "this.",
        "Clock uncertainty": "Half the best round trip of the clock exchange, of the worst worker: times of different "
        "workers compare no better than this.",
    }
)
