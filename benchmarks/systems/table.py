"""The systems that are compared, with the settings of each in one table; whatever else is in the registry joins them.

Settings that are not said are the strategy's defaults. A row whose strategy is not in the registry is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from e2c_dl import strategies
from e2c_dl.strategies.base import Setting


@dataclass(frozen=True, kw_only=True)
class System:
    """One row. ``part_of``: a system of which this is one part alone; tables of all leave it out."""

    name: str
    strategy: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    batching: str = "fixed"
    compression: str = "none"
    compression_settings: Mapping[str, Setting] = field(default_factory=dict)
    part_of: str = ""

    def described(self) -> str:
        """What a scenario would say, in a few words."""
        said = [f"`{key}: {value}`" for key, value in self.settings.items()]
        if self.batching != "fixed":
            said.append(f"`batching: {self.batching}`")
        if self.compression != "none":
            said.append(f"`compression: {self.compression}`")
            said += [f"`{key}: {value}`" for key, value in self.compression_settings.items()]
        return ", ".join([f"`{self.strategy}`", *said])


_NO_EXCHANGE: Mapping[str, Setting] = {"max_n": False}
_NO_TRANSFER: Mapping[str, Setting] = {"transfer_period": 0}
_TRANSFER: Mapping[str, Setting] = {"transfer_period": 20}  # of some 120 iterations; the paper's 100 would be one
_ROWS: tuple[System, ...] = (
    System(name="full exchange", strategy="dlion", settings={**_NO_EXCHANGE, **_NO_TRANSFER}),
    System(name="DLion", strategy="dlion", settings=_TRANSFER, batching="dynamic"),
    System(
        name="DLion: batches alone", strategy="dlion", settings={**_NO_EXCHANGE, **_NO_TRANSFER}, batching="dynamic",
        part_of="DLion",
    ),
    System(name="DLion: exchange alone", strategy="dlion", settings=_NO_TRANSFER, part_of="DLion"),
    System(name="DLion: transfer alone", strategy="dlion", settings={**_NO_EXCHANGE, **_TRANSFER}, part_of="DLion"),
    System(name="Ako", strategy="ako"),
    System(name="Gaia", strategy="gaia"),
    System(name="Hop", strategy="hop"),
    System(name="Prague", strategy="prague"),
    System(name="FedAT", strategy="fedat", compression="polyline"),
    System(name="all-reduce", strategy="allreduce"),
    System(name="all-reduce, batches by speed", strategy="allreduce", batching="dynamic"),
    System(name="parameter server", strategy="parameterserver"),
    System(name="asynchronous parameter server", strategy="asyncparameterserver"),
    System(name="AD-PSGD", strategy="adpsgd"),
    System(name="local SGD, H = 4", strategy="localsgd", settings={"period": 4}),
    System(
        name="local SGD in layers, 2 and 8", strategy="localsgd", settings={"period_within": 2, "period_between": 8}
    ),
    System(name="DiLoCo, H = 16", strategy="diloco", settings={"period": 16}),
    System(name="fast links", strategy="fastlinks"),
    System(name="butterfly", strategy="butterfly"),
    System(name="PowerSGD, rank 4", strategy="powersgd", settings={"rank": 4}),
    System(name="all-reduce, fp16", strategy="allreduce", compression="fp16"),
    System(name="all-reduce, top 1 %", strategy="allreduce", compression="topk", compression_settings={"share": 0.01}),
)  # fmt: skip
FULL_EXCHANGE = "full exchange"
"""Every worker's whole gradient to every other, every iteration: what DLion's evaluation calls Baseline."""


def systems() -> tuple[System, ...]:
    """All rows whose strategy is there, and one by its defaults of each strategy that has none."""
    there = strategies.names()
    known = {row.strategy for row in _ROWS}
    others = [System(name=name, strategy=name) for name in there if name not in known]
    return (*(row for row in _ROWS if row.strategy in there), *others)


def system(name: str) -> System:
    """The one called ``name``. Raises: KeyError."""
    return {each.name: each for each in systems()}[name]
