"""What wattmetres measured of the nodes, from Kwollect: one file, and what became of it in a sentence.

::

    {"metric": "wattmetre_power_watt", "begun": ..., "ended": ...,      as it is kept: logs/energy.json
     "hosts": {"edge-1": {"samples": [[unix time, watts], ...], "joules": 1234.5}}}

Joules are the samples' integral by trapezoids, so they miss what lies outside of the first and the last sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from e2c_dl.testbeds.grid5000.api import Api, telling
from e2c_dl.testbeds.grid5000.node import Node

METRIC = "wattmetre_power_watt"
"""Of the whole node, by a device outside of it. Source: Grid'5000 wiki, Monitoring Using Kwollect."""

Samples = list[tuple[float, float]]  # (Unix time, watts), in order of time


def measured(api: Api, nodes: Mapping[str, Node], begun_s: float, ended_s: float) -> dict[str, Any] | None:
    """What is kept of hosts -> their nodes; None if nothing measures them. Raises: E2cDlError."""
    samples: dict[str, Samples] = {}
    sites: dict[tuple[str, str], list[str]] = {}
    for node in nodes.values():
        sites.setdefault((node.site, node.cluster), []).append(node.uid)
    for (site, cluster), named in sites.items():
        if METRIC in api.metrics(site, cluster):
            samples |= _of_site(api, site, named, begun_s, ended_s)
    if not samples:
        return None
    found = {host: samples[node.uid] for host, node in nodes.items() if node.uid in samples}
    kept = {host: {"samples": some, "joules": joules(some)} for host, some in found.items()}
    return {"metric": METRIC, "begun": begun_s, "ended": ended_s, "hosts": kept}


def joules(samples: Samples) -> float:
    """Energy of a power that changes steadily from sample to sample."""
    return sum((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in pairwise(samples))


def _of_site(api: Api, site: str, named: list[str], begun_s: float, ended_s: float) -> dict[str, Samples]:
    """Node's short name -> samples."""
    query = {"nodes": ",".join(named), "metrics": METRIC, "start_time": _told(begun_s), "end_time": _told(ended_s)}
    doing, found = f"asking what {site} measured", dict[str, Samples]()
    for each in api.items(f"/sites/{site}/metrics", doing, query):
        with telling(doing):
            at = datetime.fromisoformat(str(each["timestamp"]).replace("Z", "+00:00")).timestamp()
            found.setdefault(str(each["device_id"]), []).append((at, float(each["value"])))
    return {node: sorted(some) for node, some in found.items()}


def _told(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, timezone.utc).isoformat(timespec="seconds")
