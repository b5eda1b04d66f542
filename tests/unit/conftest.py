"""A process of pytest's runs tests of all kinds: a network that a unit test's command has entered is left again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from own_network import same_network


@pytest.fixture(autouse=True)
def network_as_before() -> Iterator[None]:
    """Commands that bring up hosts move their own process, here pytest's, to a network of its own."""
    with same_network():
        yield
