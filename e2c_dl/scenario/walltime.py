"""``walltime:`` as E2Clab 3.7 can express it, and of all else what to write instead.

::

    "01:30:00"     the one form: hh:mm:ss, in quotes, less than 24 hours
    1:30:00        5400 to YAML                 write "01:30:00"
    90 min, 1.5h   no clock                     write "01:30:00"
    "25:00"        OAR's hours and minutes      longer than E2Clab can ask for: share the work among several runs
    1-00:00:00     Slurm's days                 the same
"""

from __future__ import annotations

import re

from e2c_dl.scenario.documents.field import Field, described
from e2c_dl.units import parse_span

_FORM = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]")
_CLOCK = re.compile(r"(?:(?P<d>[0-9]{1,4})-)?(?P<h>[0-9]{1,4}):(?P<m>[0-9]{1,2})(?::(?P<s>[0-9]{1,2}))?")
_DAY_S = 86_400
_FORM_REMEDY = 'write it as "hh:mm:ss", in quotes, less than 24 hours (for longer, share the work among several runs)'


def read_walltime(field: Field) -> str:
    """hh:mm:ss. Raises: ScenarioError: what to write instead, as far as it can be known what was meant."""
    said = field.value
    if isinstance(said, int) and not isinstance(said, bool):
        problem = f"{said} is a number: YAML reads 1:30:00 as 5400, seconds, where it has no quotes"
        raise field.error(problem, _remedy(said))
    text = field.text()
    if not _FORM.fullmatch(text):
        raise field.error(f"{described(text)} is no walltime that E2Clab can ask for", _remedy(_meant_s(text)))
    if not seconds(text):
        raise field.error(f"{described(text)} is no time at all", _FORM_REMEDY)
    return text


def seconds(walltime: str) -> int:
    """Of a walltime in its one form."""
    hours, minutes, rest = map(int, walltime.split(":"))
    return 3600 * hours + 60 * minutes + rest


def _meant_s(text: str) -> float | None:
    """Seconds, if a person would know what ``text`` means."""
    if clock := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, rest = (int(clock[part] or 0) for part in "dhms")
        return _DAY_S * days + 3600 * hours + 60 * minutes + rest if max(minutes, rest) < 60 else None
    try:
        return parse_span(text.replace(" ", ""))
    except ValueError:
        return None


def _remedy(meant_s: float | None) -> str:
    if meant_s is None or meant_s <= 0:
        return _FORM_REMEDY
    if meant_s >= _DAY_S:
        return "share the work among several runs of less than 24 hours, as E2Clab's schema knows no longer ones"
    whole_s = round(meant_s)
    return f'write "{whole_s // 3600:02}:{whole_s // 60 % 60:02}:{whole_s % 60:02}", in quotes'
