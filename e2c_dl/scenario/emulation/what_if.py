"""The ``what_if:`` section of ``emulation.yaml``: changes on top of everything, injected departures included.

::

    what_if:
      hosts: [{host: fog-2, speed: 2}]                      times as fast as it would be
      links: [{src: edge.*, dst: cloud.*, rate: 50mbit},    instead of whatever rate it has at the moment
              {src: edge-1, dst: fog-1, rate_factor: 2, delay_factor: 0.5}]
      without: [edge-2]                                     does not train; in simulated runs

``e2c-dl whatif --rerun`` writes it; diagnosis goes on judging by what was designed.
"""

from __future__ import annotations

from collections.abc import Sequence

from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.documents.keys import DELAY, RATE, Key, Keys, listed, needed, number
from e2c_dl.scenario.documents.patterns import HOST, hosts_of, pairs_of
from e2c_dl.scenario.documents.patterns import LINKS as PLACES
from e2c_dl.scenario.what_if import NOTHING_CHANGED, Changed, LinkChange, together
from e2c_dl.topology import Host

MOST_TIMES = 1e6
TIMES = number(1 / MOST_TIMES, MOST_TIMES)
HOSTS = Keys(host=needed(HOST), speed=needed(TIMES, "Times as fast as it would be."))
LINKS = Keys(
    **PLACES,
    rate=Key(RATE, "Instead of whatever rate it has."),
    rate_factor=Key(TIMES, "Times whatever rate it has."),
    delay=Key(DELAY, "Instead of whatever delay it has."),
    delay_factor=Key(number(0, MOST_TIMES), "Times whatever delay it has."),
)
SECTION = Keys(
    hosts=Key(HOSTS.listed, "Hosts that compute at another speed."),
    links=Key(LINKS.listed, "Links of another rate or delay."),
    without=Key(listed(HOST.schema), "Hosts that do not train, in simulated runs."),
)
_ABSOLUTE = {"rate": "rate_bps", "delay": "delay_s"}


def read_what_if(section: Field, every: Sequence[Host], found: Findings) -> Changed:
    """The section's changes of the hosts ``every``, noting in ``found`` what is wrong."""
    fields = SECTION.fields(section, found)
    parts = []
    for entry, own in found.each(found.attempt(fields["hosts"].items) or [] if "hosts" in fields else []):
        said = HOSTS.gather(entry, own)
        chosen = own.attempt(hosts_of, entry.required("host"), every) if not own.errors else None
        parts.append(Changed(speeds={host.name: said["speed"] for host in chosen or ()}))
    for entry, own in found.each(found.attempt(fields["links"].items) or [] if "links" in fields else []):
        said = {_ABSOLUTE.get(key, key): value for key, value in LINKS.gather(entry, own).items() if key not in PLACES}
        pairs = own.attempt(pairs_of, entry, every) if not own.errors else None
        parts.append(Changed(links=dict.fromkeys(pairs or (), LinkChange(**said))))
    for field in found.attempt(fields["without"].items) or [] if "without" in fields else []:
        chosen = found.attempt(hosts_of, field, every)
        parts.append(Changed(without=tuple(host.name for host in chosen or ())))
    return together(parts) if parts else NOTHING_CHANGED
