"""A node of Grid'5000 that is there, and what its name says: paradoxe-1.rennes.grid5000.fr."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Node:
    """Reached over SSH as root."""

    address: str  # its name
    device: str  # of the network that was reserved
    data_address: str

    @property
    def uid(self) -> str:
        """As the API names it at its site."""
        return self.address.partition(".")[0]

    @property
    def cluster(self) -> str:
        return self.address.partition("-")[0]

    @property
    def site(self) -> str:
        return self.address.split(".")[1]
