"""Quantities: what is read, what is refused with a remedy, and that formatting loses nothing that matters."""

import contextlib
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_rate, "10mbit", 10e6),
        (units.parse_rate, "1gbit", 1e9),
        (units.parse_rate, "500kbit", 5e5),
        (units.parse_rate, "2.5Mbit", 2.5e6),
        (units.parse_rate, " 100gbit ", 100e9),
        (units.parse_rate, "1000bit", 1e3),
        (units.parse_delay, "10ms", 0.01),
        (units.parse_delay, "1.5s", 1.5),
        (units.parse_delay, "200us", 2e-4),
        (units.parse_delay, "0ms", 0.0),
        (units.parse_loss, "1%", 0.01),
        (units.parse_loss, "0%", 0.0),
        (units.parse_loss, ".5%", 0.005),
        (units.parse_size, "64KiB", 65536),
        (units.parse_size, "1MiB", 2**20),
        (units.parse_size, "0.5KiB", 512),
        (units.parse_size, "9000B", 9000),
        (units.parse_span, "20s", 20.0),
        (units.parse_span, "500ms", 0.5),
        (units.parse_span, "2min", 120.0),
        (units.parse_span, "168h", 604800.0),
        (units.parse_share, "100%", 1.0),
        (units.parse_offset, "-50ms", -0.05),
        (units.parse_offset, " 1.5s", 1.5),
        (units.parse_drift, "100ppm", 1e-4),
        (units.parse_drift, "-100PPM", -1e-4),
    ],
)
def test_a_quantity_is_read(parse, text, value):
    assert parse(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (units.parse_rate, "10mbps", "write 10mbit for bits per second"),
        (units.parse_rate, "2MBps", "write 2mbit for bits per second"),
        (units.parse_rate, "10bps", "write 10bit for bits per second"),
        (units.parse_rate, "10", "no unit; write e.g. 10mbit"),
        (units.parse_rate, "10 mbit", "without a space"),
        (units.parse_rate, "10mib", "write one of bit, kbit, mbit, gbit"),
        (units.parse_rate, "0mbit", "from 1kbit to 100gbit"),
        (units.parse_rate, "999bit", "from 1kbit to 100gbit"),
        (units.parse_rate, "101gbit", "from 1kbit to 100gbit"),
        (units.parse_rate, "-10mbit", "a number and a unit"),
        (units.parse_rate, "infgbit", "a number and a unit"),
        (units.parse_rate, "nan", "a number and a unit"),
        (units.parse_rate, "1e9bit", "write"),
        (units.parse_rate, "9" * 400 + "bit", "out of range"),
        (units.parse_rate, "", "a number and a unit"),
        (units.parse_rate, "١٠mbit", "a number and a unit"),
        (units.parse_span, "169h", "write at most 168h"),
        (units.parse_span, "-1s", "a number and a unit"),
        (units.parse_span, "5us", "write one of ms, s, min, h"),
        (units.parse_share, "101%", "write at most 100%"),
        (units.parse_offset, "-0ms", "write an offset above 0s and below 60s"),
        (units.parse_offset, "--5ms", "a number and a unit"),
        (units.parse_offset, "60s", "below 60s"),
        (units.parse_drift, "0ppm", "write a drift up to 100000ppm"),
        (units.parse_drift, "5ms", "write one of ppm"),
        (units.parse_delay, "10", "no unit; write e.g. 10ms"),
        (units.parse_delay, "60s", "below 60s"),
        (units.parse_delay, "10m", "write one of us, ms, s"),
        (units.parse_delay, "10ms 2ms", "a number and a unit"),
        (units.parse_loss, "0.01", "no unit; write e.g. 1%"),
        (units.parse_loss, "100%", "below 100%"),
        (units.parse_size, "64KB", "write one of B, KiB, MiB, GiB"),
        (units.parse_size, "0B", "from 1B"),
        (units.parse_size, "1.5B", "no whole number"),
        (units.parse_size, "2000GiB", "1024GiB"),
    ],
)
def test_what_is_refused_says_what_to_write(parse, text, says):
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        parse(text)
    assert "; write" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        (units.format_rate(10e6), "10mbit"),
        (units.format_rate(1.5e9), "1.5gbit"),
        (units.format_rate(100), "100bit"),
        (units.format_delay(0.01), "10ms"),
        (units.format_delay(0.0), "0us"),
        (units.format_delay(2.25), "2.25s"),
        (units.format_loss(0.01), "1%"),
        (units.format_size(65536), "64KiB"),
        (units.format_size(1000), "1000B"),
        (units.format_size(3 * 2**30), "3GiB"),
    ],
)
def test_a_value_is_formatted(text, formatted):
    assert text == formatted


@given(st.floats(units.RATE_MIN_BPS, units.RATE_MAX_BPS))
def test_rates_survive_formatting(rate_bps):
    assert units.parse_rate(units.format_rate(rate_bps)) == pytest.approx(rate_bps, rel=1e-6)


@given(st.floats(0, 59.9))
def test_delays_survive_formatting(delay_s):
    assert units.parse_delay(units.format_delay(delay_s)) == pytest.approx(delay_s, rel=1e-6, abs=1e-12)


@given(st.integers(1, units.SIZE_MAX_BYTES))
def test_sizes_survive_formatting_exactly(size_bytes):
    assert units.parse_size(units.format_size(size_bytes)) == size_bytes


@given(st.text(max_size=30) | st.from_regex(r"\A[0-9.]{1,5}[a-zA-Z%]{0,5}\Z"))
def test_any_text_is_a_quantity_or_refused(text):
    for parse in (units.parse_rate, units.parse_delay, units.parse_loss, units.parse_size):
        with contextlib.suppress(ValueError):
            assert math.isfinite(parse(text))
