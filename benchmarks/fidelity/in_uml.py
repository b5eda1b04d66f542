"""The same links in User-Mode Linux, whose kernel has netem: by this project's tc commands, or by EnOSlib's.

::

    here                                         in the machine (``python -m benchmarks.fidelity.in_uml``)
    links, EnOSlib's shell lines  --- JSON --->  two hosts on a bridge; per link: shape both, measure, clear
                                  <-- a line of JSON per link ---
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from benchmarks.fidelity.drawn import Result
from benchmarks.uml import boot, hosts
from e2c_dl import typed
from e2c_dl.emulation.link_values import link_from_json, link_to_json
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.errors import E2cDlError
from e2c_dl.topology import Link

LINKS_PER_BOOT = 4
SECONDS_PER_LINK = 60.0
PROBER = (sys.executable, "-m", "e2c_dl.emulation.measuring.main")
BUFFERS = {"tcp_rmem": "4096 131072 33554432", "tcp_wmem": "4096 65536 33554432"}


def results(links: Sequence[Link], back_end: str) -> Iterator[Result]:
    """In order, as they come, a few per machine. Raises: UmlError where no machine can be booted."""
    waiting = iter(links)
    while some := list(islice(waiting, LINKS_PER_BOOT)):
        text = json.dumps([{"link": link_to_json(link), "lines": _lines(link, back_end)} for link in some])
        argv = [sys.executable, "-m", "benchmarks.fidelity.in_uml"]
        done = boot.run(argv, text=text, timeout_s=30 + SECONDS_PER_LINK * len(some))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        for link, said in zip(some, [*answers, *[{"error": done.stderr[-300:]}] * len(some)], strict=False):
            if "error" in said:
                yield Result(link=link, failure=" ".join(str(said["error"]).split()))
            else:
                yield Result(link=link, measured=typed.convert(said, Measured))


def _lines(link: Link, back_end: str) -> dict[str, str] | None:
    """host -> the line of EnOSlib's shell; None for this project's commands, which are rendered where they run."""
    if back_end != "enoslib":
        return None
    from benchmarks.uml import enoslib_commands

    first, second = hosts.names(2)
    pairs = {(first, second): link, (second, first): link}
    return enoslib_commands.lines(pairs, hosts.addresses((first, second)), hosts.DEVICE)


def inside() -> None:
    """What runs in the machine: a line of JSON per link that stands on standard input."""
    first, second = both = hosts.bring_up(2)
    for name in both:
        with hosts.entered(name):
            for setting, value in BUFFERS.items():
                subprocess.run(["sysctl", "-q", "-w", f"net.ipv4.{setting}={value}"], check=True)
    for row in json.load(sys.stdin):
        link = link_from_json(row["link"])
        asked = hosts.topology(both, {(first, second): link, (second, first): link})
        try:
            if row["lines"] is None:
                hosts.shape(asked)
            else:
                _run_lines(row["lines"])
            said = _measured(first, second, link)
        except E2cDlError as error:
            said = {"error": str(error)}
        hosts.unshape(asked)
        print(json.dumps(said), flush=True)


def _run_lines(lines: dict[str, str]) -> None:
    for name, line in lines.items():
        with hosts.entered(name):
            # As EnOSlib does it: what fails before the last command is not noticed.
            subprocess.run(["sh", "-c", line], check=False, stdout=subprocess.DEVNULL)


def _measured(src: str, dst: str, link: Link) -> dict[str, Any]:
    reached, asked = hosts.addresses((src, dst)), link_to_json(link)
    with hosts.entered(dst):
        argv = [*PROBER, "respond", reached[dst]]
        responder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if responder.stdout is None:
        raise RuntimeError("the responder has no output")
    port = int(json.loads(responder.stdout.readline())["port"])
    ends = {"src_address": reached[src], "dst_address": reached[dst], "port": port}
    with hosts.entered(src):
        request = json.dumps({**ends, "there": asked, "back": asked})
        done = subprocess.run([*PROBER, "measure"], input=request, capture_output=True, text=True, check=False)
    responder.communicate()
    said: dict[str, Any] = json.loads(done.stdout or json.dumps({"error": done.stderr[-300:]}))
    return said


if __name__ == "__main__":
    inside()
