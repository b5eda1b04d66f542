"""Which hosts a pattern of ``network.yaml``, ``workflow.yaml`` or ``emulation.yaml`` selects.

::

    edge.*               every host of the layer edge     roles are layer.service.service_id.machine_id, lower case
    edge.*:fog.*         union                            "," does the same
    *.trainer.*:!edge.*  without                          "&" instead of "!" keeps what both select

These are the patterns of E2Clab, which hands them to Ansible with *all* roles of the hosts, also the bare layer
(``edge``), the bare service and their numbers. A pattern that matches one of those selects one single host, or keeps a
host that was meant to be left out, without a word. What could do so is refused, so that the hosts selected here are
those that E2Clab selects.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from e2c_dl.scenario.field import Field, described
from e2c_dl.topology import Host

_EVERY = ("all", "*")


def select(pattern: Field, hosts: Sequence[Host]) -> tuple[Host, ...]:
    """The hosts that the text of ``pattern`` selects, at least one, in the order of ``hosts``.

    Raises: ScenarioError, if it selects none, a part of it matches none, or E2Clab would select others.
    """
    words = [word for word in (part.strip().lower() for part in re.split("[:,]", pattern.text())) if word]
    if not words:
        raise pattern.error(f"{described(pattern.text())} names nothing", _choices(hosts))
    plain = [word for word in words if word[0] not in "!&"]
    kept, dropped = ([word[1:] for word in words if word[0] == sign] for sign in "&!")
    for word in (*plain, *kept, *dropped):
        _check_word(pattern, word, hosts)
    if dropped and (not plain or any(word in _EVERY for word in plain)):
        problem = f"{described(pattern.text())}: E2Clab would still select the left-out hosts by their bare layer"
        raise pattern.error(problem, "write '*.*' for all, such as *.*:!edge.*")
    selected = tuple(
        host
        for host in hosts
        if _any(plain or ["all"], host) and all(_any([word], host) for word in kept) and not _any(dropped, host)
    )
    if not selected:
        raise pattern.error(f"{described(pattern.text())} matches no host", _choices(hosts))
    return selected


def _check_word(pattern: Field, word: str, hosts: Sequence[Host]) -> None:
    if word in _EVERY:
        return
    if word.startswith("~") or "[" in word or "]" in word:
        problem = f"{described(word)}: regular expressions and brackets are not supported"
        raise pattern.error(problem, "use * and ?, and ':' between several patterns")
    if any(word in (host.layer, host.service.lower()) for host in hosts) and "." not in word:
        meant = f"{word}.*" if any(word == host.layer for host in hosts) else f"*.{word}.*"
        raise pattern.error(f"{described(word)} selects one single host in E2Clab", f"write {meant} for all of them")
    if not any(fnmatchcase(host.role, word) for host in hosts):
        raise pattern.error(f"{described(word)} matches no host", _choices(hosts, word))
    if "." not in word:
        problem = f"{described(word)} also matches bare layers and numbers, by which E2Clab selects single hosts"
        raise pattern.error(problem, "write a dot in it, such as edge.*")


def _any(words: Sequence[str], host: Host) -> bool:
    return any(word in _EVERY or fnmatchcase(host.role, word) for word in words)


def _choices(hosts: Sequence[Host], word: str = "") -> str:
    """A remedy that says what could match, the closest first."""
    could = sorted({f"{host.layer}.*" for host in hosts} | {f"{host.layer}.{host.service.lower()}.*" for host in hosts})
    close = difflib.get_close_matches(word, [*could, *(host.role for host in hosts)], n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"write e.g. {', '.join(could[:8])}"
