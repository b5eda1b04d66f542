"""Departures in words: each by what it is, also where nothing is so many times slower."""

from __future__ import annotations

from dataclasses import replace

import sample_report as sample

from e2c_dl.diagnosis.model import ElementKind, Part
from e2c_dl.report import words


def test_a_delay_that_messages_hide_is_told_as_one() -> None:
    sick = sample.report(sample.activity(iterations=6))
    link = next(each for each in sick.culprits if each.element.kind is ElementKind.LINK)
    hidden = replace(link, part=Part.DELAY, slowdown=1.0)
    assert words.departure(hidden, "designed") == "link cloud-1 -> cloud-2 delivers later than designed"
    assert words.observed(hidden) == ("15.8 Mbit/s", "80.0 Mbit/s")
