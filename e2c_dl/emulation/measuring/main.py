"""The measuring program on a host: ``respond`` takes what others send, ``measure`` measures one link to a responder.

::

    python -m e2c_dl.emulation.measuring.main respond 198.19.0.2      prints {"port": 40123}; serves until its input
                                                                           ends
    python -m e2c_dl.emulation.measuring.main measure < request.json  prints what it measured, or {"error": "..."}

A request, all of it in SI units; ``there`` and ``back`` are what was asked of the two directions::

    {"how": "thorough", "src_address": "198.19.0.1", "dst_address": "198.19.0.2", "port": 40123,
     "there": {"rate_bps": 1e7, "delay_s": 0.01, "loss": 0.0}, "back": {}}

``how`` is thorough, quick, or share: then, in place of the links, ``offered_bps``, ``begin_s`` (Unix time) and
``seconds``. Needs Python and this package, nothing else: it runs in namespaces, in containers, over ssh.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from e2c_dl.emulation.link_values import link_from_json
from e2c_dl.emulation.measuring.quick import measure_link
from e2c_dl.emulation.measuring.responder import Responder
from e2c_dl.emulation.measuring.thorough import measure_thoroughly, share
from e2c_dl.errors import E2cDlError, EmulationError, InputError

MEASURES = {"quick": measure_link, "thorough": measure_thoroughly}
USAGE = "python -m e2c_dl.emulation.measuring.main respond ADDRESS | measure (a JSON request on standard input)"


def answer(request: Any) -> dict[str, Any]:
    """What ``request`` asks to be measured, as JSON knows it: a Measured, or a Share.

    Raises: InputError for what is no request; EmulationError when nobody answers.
    """
    if not isinstance(request, Mapping):
        raise InputError(f"prober: a request is a JSON object, not {request!r}")
    fields = dict(request)
    how = fields.pop("how", "thorough")
    try:
        if how == "share":
            return dict(msgspec.to_builtins(share(**fields)))
        if how not in MEASURES:
            raise InputError(f"prober: how is {how!r}; write thorough, quick or share")
        links: dict[str, Any] = {name: link_from_json(fields.pop(name)) for name in ("there", "back")}
        return dict(msgspec.to_builtins(MEASURES[how](**fields, **links)))
    except KeyError as error:
        raise InputError(
            f"prober: the request lacks {error}; see python -m e2c_dl.emulation.measuring.main --help"
        ) from error
    except TypeError as error:
        raise InputError(f"prober: the request does not fit ({error})") from error


def respond(address: str) -> None:
    """Serves on ``address`` until standard input ends. Raises: EmulationError when it cannot listen there."""
    with Responder(address, 0) as responder:
        print(json.dumps({"port": responder.port}), flush=True)
        while sys.stdin.read(4096):  # whoever started it is gone when this ends, however that was killed
            pass


def main(argv: Sequence[str]) -> int:
    """The exit status; an error that is known stands on standard output as {"error": "..."}."""
    try:
        if len(argv) == 2 and argv[0] == "respond":
            respond(argv[1])
        elif argv == ["measure"]:
            print(json.dumps(answer(_request())))
        else:
            print(USAGE, file=sys.stderr)
            return 0 if argv in (["--help"], ["-h"]) else 2
    except E2cDlError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return error.exit_code
    except OSError as error:
        print(json.dumps({"error": str(EmulationError(f"measuring: {error}"))}), flush=True)
        return 1
    return 0


def _request() -> Any:
    try:
        return json.load(sys.stdin)
    except ValueError as error:
        raise InputError(f"prober: the request is not JSON ({error})") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
