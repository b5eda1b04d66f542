"""Numbers for people: three digits of the unit that they round to."""

from __future__ import annotations

import pytest

from e2c_dl import formatting


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (formatting.seconds(0.99949), "999 ms"),
        (formatting.seconds(0.99951), "1.00 s"),
        (formatting.seconds(-0.99951), "-1.00 s"),
        (formatting.seconds(999.6e-6), "1.00 ms"),
        (formatting.rate(999_400), "999 kbit/s"),
        (formatting.rate(999_600), "1.00 Mbit/s"),
        (formatting.size(1023), "1023 B"),
        (formatting.size(1023.6 * 1024), "1.00 MiB"),
    ],
)
def test_what_rounds_to_a_thousand_is_one_of_the_next_unit(shown: str, text: str) -> None:
    assert shown == text
