"""Collecting the trained model: its holders send their parameters to rank 0, outside of training.

Over connections of its own between management addresses, which nothing shapes, and in no trace: a model is collected as
an archive is. One holder after the other is asked, so that rank 0 has room for one more model, not for all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from e2c_dl.drivers.live.control import WHILE_ALIVE, Control
from e2c_dl.strategies.base import Message, Vector
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.worlds.live import Address, Network
from e2c_dl.worlds.live.mailbox import MailKey
from e2c_dl.worlds.trained import CURVE_RANK, Assembling, TrainedModel

_ASK, _KIND = "ask", "model"


async def collect(
    model: TrainedModel, parameters: Vector, control: Control, *, address: str, size: int, key: bytes
) -> Vector:
    """The model, at rank 0; elsewhere this rank's own ``parameters``. ``address`` is this host's, for management.

    All ranks call it together. Raises: TrainingError, PeerLost, Aborted.
    """
    links = [(rank, CURVE_RANK) for rank in model.holders if rank != CURVE_RANK]
    if not links:
        return parameters
    with ExitStack() as stack:
        unread = Recorder(Path(os.devnull), rank=control.rank, host="", layer="")
        stack.enter_context(unread)
        network = Network(
            address, rank=control.rank, size=size, key=key, recorder=unread, largest_payload_bytes=parameters.nbytes
        )
        stack.callback(network.abort)
        listening = await control.gather("collecting", [network.address.host, network.address.port], WHILE_ALIVE)
        back = [(dst, src) for src, dst in links]
        await network.connect([Address(host=host, port=port) for host, port in listening], [*links, *back])
        collected = await _exchanged(network, model, parameters, [src for src, _ in links])
        await network.close()
    return collected


async def _exchanged(network: Network, model: TrainedModel, parameters: Vector, sources: Sequence[int]) -> Vector:
    if network.rank != CURVE_RANK:
        if network.rank in sources:
            await network.mailboxes.get(MailKey(CURVE_RANK, _ASK, -1, -1, -1))
            await network.post(CURVE_RANK, Message(kind=_KIND, payload=parameters), 0, 0, 0)
        return parameters
    assembling = Assembling(model, parameters) if CURVE_RANK in model.holders else None
    for src in sources:
        await network.post(src, Message(kind=_ASK), 0, 0, 0)
        came = (await network.mailboxes.get(MailKey(src, _KIND, -1, -1, -1))).message.vector
        if assembling is None:
            assembling = Assembling(model, came)
        else:
            assembling.add(src, came)
    return parameters if assembling is None else assembling.model()
