"""What EnOSlib's NetemHTB would run on each host, as it renders it: for running it where no Ansible is.

NetemHTB knows rate, delay and loss of a pair. ``NetemHTB.deploy`` hands each host one line of a shell, its commands
joined by semicolons: so does this. Needs enoslib.
"""

from __future__ import annotations

from collections.abc import Mapping

from e2c_dl.topology import Link, Pair


def lines(links: Mapping[Pair, Link], addresses: Mapping[str, str], device: str) -> dict[str, str]:
    """host -> the line of its shell. Raises: ValueError for a link that NetemHTB cannot express."""
    from enoslib.objects import Host
    from enoslib.service.emul.htb import HTBSource

    sources: dict[str, HTBSource] = {}
    for (src, dst), link in sorted(links.items()):
        plain = Link(rate_bps=link.rate_bps, delay_s=link.delay_s, loss=link.loss)
        if link != plain:
            raise ValueError(f"{src} -> {dst}: NetemHTB knows rate, delay and loss; not {link}")
        asked = {"device": device, "target": addresses[dst], "delay": f"{link.delay_s * 1000:g}ms"}
        if link.rate_bps is not None:
            asked["rate"] = f"{link.rate_bps / 1000:.0f}kbit"  # the finest that it takes
        if link.loss:
            asked["loss"] = f"{link.loss:.2%}"
        sources.setdefault(src, HTBSource(Host(src))).add_constraint(**asked)
    return {
        name: " ; ".join(command for part in source.all_commands() for command in part)
        for name, source in sources.items()
    }
