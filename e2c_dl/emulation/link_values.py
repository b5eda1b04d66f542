"""Links to and from JSON: the fields by name, the distribution by its word, a burst as an object of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from e2c_dl.errors import EmulationError
from e2c_dl.topology import BurstLoss, Distribution, Link


def link_to_json(link: Link) -> dict[str, Any]:
    """``link`` as JSON knows it: ``link_from_json`` takes it back."""
    return dataclasses.asdict(link) | {"distribution": link.distribution.value}


def link_from_json(value: Any) -> Link:
    """The link; what ``value`` does not name is as in ``Link()``. Raises: EmulationError for what is no link."""
    if not isinstance(value, Mapping):
        raise EmulationError(f"link: {value!r} is not a JSON object; write its fields by name, as in link_to_json")
    fields = dict(value)
    try:
        if "distribution" in fields:
            fields["distribution"] = Distribution(fields["distribution"])
        if fields.get("burst") is not None:
            fields["burst"] = BurstLoss(**fields["burst"])
        return Link(**fields)
    except (TypeError, ValueError) as error:
        raise EmulationError(f"link: {error}; write its fields by name, as in link_to_json") from error
