"""Changing a running relay, and asking what is in force: a Unix datagram socket, at both of its ends.

::

    RelayControl  --- {"change": {"links": [...], "bottlenecks": {...}}} + a descriptor --->  RelayControlSocket
                  --- {"show": {"from": N}}                              + a descriptor --->      in the relay
                  <-- {"monotonic_ns": ...}, {"links": [...], "next": M, ...} or {"error": "..."} ---

Every request brings one end of a socket pair along for its answer: hosts see the relay's socket under paths of their
own, so there is no name by which the relay could reach them. The socket's file is for its owner alone (mode 0600).
Times are CLOCK_MONOTONIC, which all hosts of one machine share.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from e2c_dl.emulation.link_values import links_from_json, links_to_json
from e2c_dl.emulation.relay.config import link_problems, rate_problems
from e2c_dl.emulation.relay.switch import Switch
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Link, Pair

ANSWER_S = 5.0
LINKS_PER_MESSAGE = 200
"""A datagram takes some 200 KB (net.core.wmem_default); a link takes up to 350 bytes."""

_REQUEST_BYTES = 256 * 1024


class RelayControl:
    """The asking end: whoever may write to the relay's socket ``path``, on any host of the run."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def apply(self, links: Mapping[Pair, Link], bottlenecks: Mapping[str, float]) -> int:
        """CLOCK_MONOTONIC in ns at which all of it was in force. What waits on these links goes on as they now are.

        ``bottlenecks``: name -> its new rate_bps. Other links and bottlenecks stay as they are. More than
        LINKS_PER_MESSAGE links are changed one lot after the other.

        Raises: EmulationError when the relay does not answer, or refuses; then nothing of that lot is changed.
        """
        pairs = list(links)
        for first in range(0, max(1, len(pairs)), LINKS_PER_MESSAGE):
            lot = {pair: links[pair] for pair in pairs[first : first + LINKS_PER_MESSAGE]}
            rates = dict(bottlenecks) if first == 0 else {}  # once is enough
            change = {"links": links_to_json(lot, ())["links"], "bottlenecks": rates}
            in_force_ns = int(self._ask({"change": change})["monotonic_ns"])
        return in_force_ns

    def show(self) -> dict[str, Any]:
        """What is in force now, as ``links_to_json`` writes it. Raises: EmulationError."""
        links: list[Any] = []
        first: int | None = 0
        while first is not None:
            answer = self._ask({"show": {"from": first}})
            links += answer["links"]
            first = answer["next"]
        return {"links": links, "bottlenecks": answer["bottlenecks"]}

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # tells when the other end is gone
        with ours, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            ours.settimeout(ANSWER_S)
            asking.settimeout(ANSWER_S)
            try:
                with theirs, _short(self._path) as path:
                    asking.connect(path)
                    socket.send_fds(asking, [json.dumps(request).encode()], [theirs.fileno()])
                said = ours.recv(_REQUEST_BYTES)
            except OSError as error:
                raise EmulationError(
                    f"relay: no answer at {self._path} ({error}); its run has ended; `e2c-dl logs` shows what is up"
                ) from error
        if not said:  # the answering end was closed without an answer: the relay ended in between
            raise EmulationError(f"relay: it ended before it answered at {self._path}; see its log in the archive")
        answer: dict[str, Any] = json.loads(said)
        if "error" in answer:
            raise EmulationError(answer["error"])
        return answer


class RelayControlSocket:
    """The answering end, in the relay's event loop. Whatever is sent to it harms nothing."""

    def __init__(self, path: Path, switch: Switch) -> None:
        """Raises: OSError when the socket cannot be made at ``path``; one that stands there is replaced."""
        self._path, self._switch = path, switch
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)  # a socket takes its mode when it is bound, and must never be open to others
        try:
            with _short(path) as short:
                self._socket.bind(short)
        except OSError:
            self._socket.close()
            raise
        finally:
            os.umask(mask)
        self.changes = self.refused = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def serve(self) -> None:
        """Answers one request, if one waits."""
        try:
            said, descriptors, flags, _ = socket.recv_fds(self._socket, _REQUEST_BYTES, 1)
        except BlockingIOError:
            return
        answer = self._answer(said) if not flags & socket.MSG_TRUNC else self._refuse("the request is too long")
        for descriptor in descriptors:
            _reply(descriptor, answer)

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _answer(self, said: bytes) -> dict[str, Any]:
        try:
            request = json.loads(said)
            if isinstance(request, dict) and request.keys() == {"change"}:
                return self._change(request["change"])
            if isinstance(request, dict) and request.keys() == {"show"}:
                return self._show(int(request["show"]["from"]))
        except EmulationError as error:
            return self._refuse(str(error))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            return self._refuse(f"the request is malformed ({type(error).__name__}: {error})")
        return self._refuse("the request is neither a change nor show")

    def _change(self, asked: Any) -> dict[str, Any]:
        links, bottlenecks = links_from_json(asked["links"]), dict(asked["bottlenecks"])
        names = set(self._switch.names)
        for pair, link in links.items():
            for problem in link_problems(pair, link, names):
                raise EmulationError(f"relay: {pair[0]} -> {pair[1]}: {problem}")
        for name, rate_bps in bottlenecks.items():
            if name not in self._switch.bottlenecks:
                known = ", ".join(sorted(self._switch.bottlenecks)) or "none"
                raise EmulationError(f"relay: there is no bottleneck {name}; name one of: {known}")
            for problem in rate_problems(rate_bps):
                raise EmulationError(f"relay: bottleneck {name}: {problem}")
        in_force_ns = self._switch.change(links, bottlenecks)  # all is checked: a refused lot changes nothing
        self.changes += 1
        return {"monotonic_ns": in_force_ns}

    def _show(self, first: int) -> dict[str, Any]:
        links = self._switch.links
        pairs = sorted(links)[max(0, first) :]
        shown = {pair: links[pair] for pair in pairs[:LINKS_PER_MESSAGE]}
        after = max(0, first) + LINKS_PER_MESSAGE if len(pairs) > LINKS_PER_MESSAGE else None
        return {**links_to_json(shown, tuple(self._switch.bottlenecks.values())), "next": after}

    def _refuse(self, why: str) -> dict[str, Any]:
        self.refused += 1
        return {"error": why if why.startswith("relay: ") else f"relay: {why}; ask through RelayControl"}


def _reply(descriptor: int, answer: Mapping[str, Any]) -> None:
    """Sends ``answer`` if ``descriptor`` is a socket that takes it now; closes it. The relay waits for nobody."""
    try:
        end = socket.socket(fileno=descriptor)
    except OSError:  # no socket: nobody can be told
        os.close(descriptor)
        return
    with end, contextlib.suppress(OSError):  # whoever does not take its answer has none
        end.send(json.dumps(answer).encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name of ``path`` that fits into a socket address (107 bytes), however deep its directory lies."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
