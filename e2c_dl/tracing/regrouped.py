"""What becomes of a rank's session when torch makes its group of all ranks: the first one, or another.

::

    nothing written yet            the ranks meet
    it trained alone until then    the ranks meet, and what it did alone is left out: each began as rank 0 of 1
    later, of as many ranks        it goes on; all count their collectives from the same number
    later, of others               it goes on as the rank that it was; its collectives are joined to no others'
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from e2c_dl.tracing.rendezvous import Exchange, tell

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session


def regrouped(session: Session, rank: int, world_size: int, exchange: Exchange) -> None:
    """This process is ``rank`` of ``world_size`` from now on."""
    before = session.ranks if session.opened else None
    if before is None or (before.world_size < world_size and (before.world_size == 1 or not session.iterations_done)):
        if before is not None or session.untold:
            session.begin_anew()
        session.meet(rank, world_size, exchange)
        return
    own = before.own
    if before.world_size == world_size:
        session.count_anew()
    else:
        session.count_apart(own.rank)
    if (own.rank, before.world_size) != (rank, world_size):
        session.limited(
            f"its process group was made anew: rank {own.rank} of {before.world_size} became rank {rank} of "
            f"{world_size}, and is called rank {own.rank} still"
        )
    with suppress(Exception):  # a script's store raises what it likes; who comes does without, after a while
        tell(replace(own, rank=rank), exchange)
