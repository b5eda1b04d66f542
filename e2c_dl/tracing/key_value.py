"""The key-value server of Horovod's launcher, as a place where ranks leave values for each other.

It answers at once, and takes no part in Horovod's collectives: a rank that is not traced holds nobody up. Where ranks
were begun by MPI there is none, and they tell each other by a collective: then all must be traced.
"""

from __future__ import annotations

import base64
import os
import urllib.error
import urllib.request
from typing import Any

from e2c_dl.tracing.rendezvous import Exchange

ANSWER_WITHIN_S = 5.0
SCOPE = "e2cdl"


class KeyValueExchange:
    """The server at ``address``:``port``. Raises: OSError, if it is not there."""

    def __init__(self, address: str, port: int) -> None:
        self._root = f"http://{address}:{port}/{SCOPE}"
        # Never through a proxy: the server is a launcher's, on this network.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def put(self, key: str, value: bytes) -> None:
        body = base64.b64encode(value)
        asked = urllib.request.Request(f"{self._root}/{_flat(key)}", data=body, method="PUT")
        self._opener.open(asked, timeout=ANSWER_WITHIN_S).close()

    def get(self, key: str) -> bytes | None:
        try:
            with self._opener.open(f"{self._root}/{_flat(key)}", timeout=ANSWER_WITHIN_S) as answer:
                return base64.b64decode(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise


class GatheredExchange:
    """Where the launcher has no such server (MPI): a ``put`` is a collective of Horovod's, of all ranks."""

    def __init__(self, hvd: Any) -> None:
        self._hvd = hvd
        self._values: dict[str, bytes] = {}

    def put(self, key: str, value: bytes) -> None:
        self._values.update(pair for pair in self._hvd.allgather_object((key, value), name=f"{SCOPE}.{SCOPE}"))

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)


def exchange(hvd: Any) -> Exchange:
    """The one that Horovod's launcher offers."""
    address = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "")
    if address and port.isdecimal():
        return KeyValueExchange(address, int(port))
    return GatheredExchange(hvd)


def _flat(key: str) -> str:
    return key.replace("/", ".")
