"""Two namespaces with the relay between them, and one link after another measured by the hosts themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.fidelity.drawn import ENDS, Result
from benchmarks.relay import bed
from e2c_dl import typed
from e2c_dl.emulation.link_values import link_to_json
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.emulation.relay.config import RelayConfig, RelayHost
from e2c_dl.emulation.relay.control import RelayControl
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.topology import Link

PROBER = (sys.executable, "-m", "e2c_dl.emulation.measuring.main")
BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 67108864", "net.ipv4.tcp_wmem": "4096 65536 67108864"}


def results(links: Sequence[Link]) -> Iterator[Result]:
    """One at a time: side by side they would take each other's cores. Between links the running relay is changed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = []
        for _ in ENDS:
            host = bed.Host()
            stack.callback(host.close)
            for name, value in BUFFERS.items():
                host.run("sysctl", "-q", "-w", f"{name}={value}")
            hosts.append(host)
        config = RelayConfig(
            hosts=tuple(
                RelayHost(name=n, netns_pid=h.pid, device="eth1", address=f"{a}/16", mac=f"02:00:00:00:00:0{i}")
                for i, (n, h, a) in enumerate(zip(ENDS, hosts, bed.ADDRESSES, strict=True), 1)
            ),
            links={},
            seed=1,
            report_path=str(folder / "report.json"),
            control_path=str(folder / "relay.sock"),
        )
        relay = RelayProcess.start(config, os.environ, folder / "stderr")
        stack.callback(relay.kill)
        control, port = RelayControl(folder / "relay.sock"), _responding(hosts[1], stack)
        for link in links:
            control.apply({ENDS: link, (ENDS[1], ENDS[0]): link}, {})
            yield _measured(hosts[0], port, link)


def _responding(host: bed.Host, stack: ExitStack) -> int:
    argv = host.argv(*PROBER, "respond", bed.ADDRESSES[1])
    responder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(responder.communicate)
    if responder.stdout is None:
        raise RuntimeError("the responder has no output")
    return int(json.loads(responder.stdout.readline())["port"])


def _measured(host: bed.Host, port: int, link: Link) -> Result:
    asked = link_to_json(link)
    ends = {"src_address": bed.ADDRESSES[0], "dst_address": bed.ADDRESSES[1], "port": port}
    request = json.dumps({**ends, "there": asked, "back": asked})
    done = subprocess.run(host.argv(*PROBER, "measure"), input=request, capture_output=True, text=True, check=False)
    said: dict[str, Any] = json.loads(done.stdout or '{"error": "it ended without a word"}')
    if "error" in said:
        return Result(link=link, failure=said["error"])
    return Result(link=link, measured=typed.convert(said, Measured))
