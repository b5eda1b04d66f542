"""One colour per meaning, the same in every figure, told apart by people with any colour vision (after Okabe and Ito).

Colour never speaks alone: culprits are also labelled, states also stand in the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from e2c_dl.diagnosis.states import Phase, State

STATES: Mapping[State, str] = MappingProxyType(
    {State.COMPUTE: "#0072b2", State.PROPAGATE: "#e69f00", State.WAIT: "#c3c9d1", State.OTHER: "#7b8490"}
)
PHASES: Mapping[Phase, str] = MappingProxyType(
    {
        Phase.DATA: "#56b4e9",
        Phase.FORWARD: "#004a75",
        Phase.BACKWARD: "#0072b2",
        Phase.REDUCE: "#009e73",
        Phase.STEP: "#cc79a7",
        Phase.EVALUATE: "#7a5195",
        Phase.CHECKPOINT: "#8c6d31",
        Phase.COPY: "#b9a7d6",
    }
)
MESSAGE = "#e69f00"  # that of propagation, which a message is
CULPRIT = "#dc3b30"
NEUTRAL = "#7b8490"
SHARES = ("#56b4e9", "#009e73", "#cc79a7", "#7a5195", "#f0e442")  # of what several carry together
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#1b1f24")  # lines of a figure, one per run
MARK = "#5b3a8c"  # where an iteration begins

HEAT = ("#eef1f4", "#fbe3b5", "#f5b35c", "#e2762c", "#bd3524", "#6d0f2b")
"""From as expected to six times slower and more: the darker, the slower, to people with any colour vision."""

DARK: Mapping[str, str] = MappingProxyType(
    {STATES[State.COMPUTE]: "#3d9bdc", STATES[State.WAIT]: "#4d555f", STATES[State.OTHER]: "#8d97a3",
     PHASES[Phase.FORWARD]: "#1e6ea8", PHASES[Phase.EVALUATE]: "#a77cc0", CULPRIT: "#ff7469", MARK: "#b99be6"}
)  # fmt: skip
"""What stands for a colour on a dark page, where it would not be seen or would glare; the others stay."""
DARK_HEAT = ("#262c34", "#5b4a26", "#97661f", "#d08023", "#f0603c", "#ffb3a0")

STATE_TEXT: Mapping[State, str] = MappingProxyType(
    {State.COMPUTE: "#ffffff", State.PROPAGATE: "#1b1f24", State.WAIT: "#1b1f24", State.OTHER: "#ffffff"}
)
"""What can be read on each state's colour."""
