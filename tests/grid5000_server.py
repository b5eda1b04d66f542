"""HTTP as the API of Grid'5000 speaks it, for ``grid5000_api``: Basic authentication, JSON, and whatever goes wrong."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

HANG, LOST, NONSENSE, TRUNCATED, OTHER = "hang", "lost", "nonsense", "truncated", "other"
"""No answer; none, but what was asked for is done; HTML; half of what would be JSON; JSON, but of other types."""
_SAID = {
    NONSENSE: b"<html>neither JSON nor an error",
    TRUNCATED: b'{"items": [{"uid": "lil',
    OTHER: b'{"items": 7, "uid": [], "state": null, "status": 3}',
}


class Handler(BaseHTTPRequestHandler):
    """One connection; ``platform`` is what answers."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one packet: a second one would wait until the first is acknowledged
    platform: Any

    def log_message(self, *arguments: object) -> None:
        """Nothing: ``Platform.requests`` has them."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        api, where = self.platform, urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        with api.lock:
            api.requests.append((self.command, self.path, body))
            said = f"{self.command} {self.path}"
            broken = next((how for key, how in api.broken.items() if said.startswith(key)), 0)
            if broken and api.after is not None:
                api.after -= 1
                if api.after <= 0:
                    api.broken.clear()
            then = next((api.on.pop(key) for key in list(api.on) if said.startswith(key)), None)
        if broken == LOST:
            with api.lock:
                getattr(api, self.command.lower())(where.path.strip("/").split("/"), body)
        if broken in (HANG, LOST):
            api.over.wait()  # until the test is over
            self.close_connection = True
        elif broken:
            said = _SAID.get(str(broken))
            self._send(200 if said else int(broken), said or b'{"message": "made to fail"}')
        elif not self._known():
            self._send(401, b'{"message": "Unauthorized"}')
        else:
            self._served(where, body)
        if then is not None:
            then()

    def _served(self, where: SplitResult, body: Any) -> None:
        api = self.platform
        path, query = where.path.strip("/").split("/"), {key: each[0] for key, each in parse_qs(where.query).items()}
        with api.lock:
            if self.command == "GET":
                status, found = api.get(path, query)
            else:
                status, found = api.post(path, body) if self.command == "POST" else api.delete(path)
        self._send(status, b"" if found is None else json.dumps(found).encode())

    def _known(self) -> bool:
        wanted = base64.b64encode(f"{self.platform.user}:{self.platform.password}".encode()).decode()
        return self.headers.get("Authorization") == f"Basic {wanted}"

    def _send(self, status: int, text: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
