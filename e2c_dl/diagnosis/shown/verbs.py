"""What an element does that departs, as a verb of one and of a group."""

from __future__ import annotations

from e2c_dl.diagnosis.model import Part

_CARRIES = "carries data", "carry data"
_VERBS = {  # of one element, of a group
    Part.COMPUTE: ("computes", "compute"),
    Part.DATA: ("loads data", "load data"),
    Part.STEP: ("takes its steps", "take their steps"),
    Part.REDUCE: ("sums vectors", "sum vectors"),
    Part.EVALUATION: ("evaluates", "evaluate"),
    Part.CHECKPOINT: ("writes checkpoints", "write checkpoints"),
    Part.COPY: ("copies between memories", "copy between memories"),
    Part.PROCESSOR: ("waits for a processor, and so computes", "wait for processors, and so compute"),
    Part.OTHER: ("does what no phase names", "do what no phase names"),
    Part.RATE: _CARRIES,
    Part.DELAY: ("delivers later, and so carries data", "deliver later, and so carry data"),
    Part.RATE_OR_DELAY: _CARRIES,
    Part.RATE_DELAY_OR_LOSS: _CARRIES,
    Part.LOSS: ("loses segments, and so carries data", "lose segments, and so carry data"),
    Part.SENDER: ("waits for its sender, and so carries data", "wait for their senders, and so carry data"),
    Part.RECEIVER: ("waits for its receiver, and so carries data", "wait for their receivers, and so carry data"),
    Part.STALLED: _CARRIES,
}


def slower(part: Part, times: str, *, many: bool = False) -> str:
    """``computes 3.0 × slower``, as ``times`` says; of ``many`` ``compute``; without times what it does, no more."""
    verb = _VERBS[part][many]
    return f"{verb} {times} slower" if times else verb.split(",", maxsplit=1)[0]
