"""Where programs are looked for, whatever the user's PATH is: ordinary users' often lack the system's directories."""

from __future__ import annotations

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def with_system(own: str | None) -> str:
    """The PATH ``own``, then what it lacks of the system's; without its empty entries, which mean "here".

    >>> with_system("/opt/bin::/usr/bin")
    '/opt/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin'
    """
    return ":".join(dict.fromkeys(place for place in f"{own or ''}:{SYSTEM_PATH}".split(":") if place))
