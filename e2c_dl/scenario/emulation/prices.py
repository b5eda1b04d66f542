"""The ``prices:`` section of ``emulation.yaml``: what hosts cost per hour, and links per gigabyte.

::

    prices:
      currency: EUR
      hosts: [{host: cloud.*, per_hour: 0.52}]                          of several that match, the last holds
      links: [{src: cloud.*, dst: edge.*, per_gb: 0.09}]                of what training sends; 1 GB = 10^9 bytes

What is not named costs nothing. ``e2c-dl advise`` reckons with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.documents.keys import Key, Keys, matching, needed, number
from e2c_dl.scenario.documents.patterns import HOST, hosts_of, pairs_of
from e2c_dl.scenario.documents.patterns import LINKS as PLACES
from e2c_dl.topology import Host, Pair

MOST = 1e9
GIGABYTE = 1e9
_S_PER_HOUR = 3600.0
PRICE = number(0, MOST)
HOSTS = Keys(host=needed(HOST), per_hour=needed(PRICE, "For each hour that training takes."))
LINKS = Keys(**PLACES, per_gb=needed(PRICE, "For each 10^9 bytes of messages."))
SECTION = Keys(
    currency=Key(matching("[A-Za-z]{1,8}", "currency", "write e.g. EUR"), "Shown beside sums.", default="EUR"),
    hosts=Key(HOSTS.listed, "What hosts cost."),
    links=Key(LINKS.listed, "What links cost."),
)


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What a run costs."""

    currency: str = "EUR"
    per_hour: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))  # of a host
    per_gb: Mapping[Pair, float] = field(default_factory=lambda: MappingProxyType({}))  # of a directed link

    def cost(self, run_s: float, hosts: Sequence[str], sent_bytes: Mapping[Pair, int]) -> float:
        """Of a run of ``run_s`` on ``hosts``, whose links carried ``sent_bytes``."""
        time = sum(self.per_hour.get(host, 0.0) for host in hosts) * run_s / _S_PER_HOUR
        return time + sum(self.per_gb.get(pair, 0.0) * sent / GIGABYTE for pair, sent in sent_bytes.items())


def read_prices(section: Field, every: Sequence[Host], found: Findings) -> Prices:
    """The section's prices for the hosts ``every``, noting in ``found`` what is wrong."""
    fields = SECTION.fields(section, found)
    per_hour: dict[str, float] = {}
    per_gb: dict[Pair, float] = {}
    for entry, own in found.each(found.attempt(fields["hosts"].items) or [] if "hosts" in fields else []):
        said = HOSTS.gather(entry, own)
        chosen = own.attempt(hosts_of, entry.required("host"), every) if not own.errors else None
        per_hour.update({host.name: said["per_hour"] for host in chosen or ()})
    for entry, own in found.each(found.attempt(fields["links"].items) or [] if "links" in fields else []):
        said = LINKS.gather(entry, own)
        pairs = own.attempt(pairs_of, entry, every) if not own.errors else None
        per_gb.update(dict.fromkeys(pairs or (), said.get("per_gb", 0.0)))
    currency = found.attempt(SECTION["currency"].kind.read, fields["currency"]) if "currency" in fields else None
    return Prices(currency=currency or "EUR", per_hour=per_hour, per_gb=per_gb)
