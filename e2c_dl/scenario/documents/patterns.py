"""Patterns of ``network.yaml``, ``workflow.yaml`` and ``emulation.yaml``: hosts, and the directed links between them.

::

    edge.*               every host of the layer edge     roles are layer.service.service_id.machine_id, lower case
    edge.*:fog.*         union                            "," does the same
    *.trainer.*:!edge.*  without                          "&" instead of "!" keeps what both select

    edge-1               the host of that very name       in ``emulation.yaml``, which E2Clab does not read
    random               drawn by a seed                  under its ``injected:`` alone

    {src: edge.*, dst: cloud.*, symmetric: true}          the links from each of the first to each of the second, and
                                                          (``emulation.yaml``, ``network.yaml``) back

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

from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import BOOLEAN, Key, Keys, Kind, needed
from e2c_dl.topology import Host, Pair

RANDOM = "random"
_HOSTS = "A host's name (edge-1) or a pattern over layer.service.number.machine (edge.*, edge.*:fog.*)."
_PLACES = "A host's name, a pattern, or random: drawn by the seed."
HOST = Kind(read=Field.text, schema={"type": "string", "minLength": 1, "description": _HOSTS})
PLACE = Kind(read=Field.text, schema={**HOST.schema, "description": _PLACES})
SYMMETRIC = Key(BOOLEAN, "Also the links back.", default=False)
LINKS = Keys(src=needed(HOST, "Where the links begin."), dst=needed(HOST, "Where they end."), symmetric=SYMMETRIC)
"""The keys by which an entry of ``emulation.yaml`` names directed links."""

_EVERY = ("all", "*")
_UNLESS_VARIED = "leave it if quantities vary, or remove it"


def select(pattern: Field, hosts: Sequence[Host]) -> tuple[Host, ...]:
    """The hosts that the text of ``pattern`` selects, at least one, in the order of ``hosts``.

    Raises: ScenarioError, if it selects none, a part of it matches none, or E2Clab would select others.
    """
    # Lower case, as E2Clab lowers patterns before Ansible matches them.
    words = [word for word in (part.strip().lower() for part in re.split("[:,]", pattern.text())) if word]
    if not words:
        raise pattern.error(f"{described(pattern.text())} names nothing", _choices(hosts))
    plain = [word for word in words if word[0] not in "!&"]
    kept, dropped = ([word[1:] for word in words if word[0] == sign] for sign in "&!")
    for word in (*plain, *kept, *dropped):  # each part by itself: one of a union that matches nothing is a slip
        _check_word(pattern, word, hosts)
    if dropped and (not plain or any(word in _EVERY for word in plain)):
        problem = f"{described(pattern.text())}: E2Clab would still select the left-out hosts by their bare layer"
        raise pattern.error(problem, "write '*.*' for all, such as *.*:!edge.*")
    able = [host for host in hosts if _any(plain or ["all"], host) and not _any(dropped, host)]
    selected = tuple(host for host in able if all(_any([word], host) for word in kept))
    if not selected:
        raise pattern.error(f"{described(pattern.text())} matches no host", _choices(hosts))
    return selected


def hosts_of(field: Field, hosts: Sequence[Host]) -> tuple[Host, ...]:
    """The host of that very name, else those that the pattern selects. Raises: ScenarioError."""
    text = field.text()
    if text == RANDOM:
        raise field.error("nothing is drawn here", "write random under 'injected:' alone, or name hosts")
    # The name first: no role is spelled like one, roles have dots.
    return tuple(host for host in hosts if host.name == text) or select(field, hosts)


def pairs_of(entry: Field, hosts: Sequence[Host], found: Findings | None = None) -> list[Pair]:
    """The directed links between the ``src`` and the ``dst`` of ``entry``, without a host to itself, each once.

    None, and a remark in ``found``, where both are one host by a pattern. Raises: ScenarioError.
    """
    sources, destinations = (hosts_of(entry.required(end), hosts) for end in ("src", "dst"))
    pairs = between(entry, sources, destinations, found)
    return both_ways(pairs) if is_symmetric(entry) else pairs


def between(
    entry: Field, sources: Sequence[Host], destinations: Sequence[Host], found: Findings | None = None
) -> list[Pair]:
    """The links from each of ``sources`` to each other one of ``destinations``; as :func:`pairs_of`."""
    pairs = [(src.name, dst.name) for src in sources for dst in destinations if src is not dst]
    if not pairs:
        texts = [entry.required(end).text() for end in ("src", "dst")]
        if found is None or not all(set("*?") & set(text) or text.strip() == "all" for text in texts):
            raise entry.error("src and dst are one and the same host", "name two, or remove it")
        # E2Clab's normal way to write a scenario whose quantities vary: it says something as soon as there are two.
        remark = entry.error(f"holds for no link: {' and '.join(texts)} are {sources[0].name} alone", _UNLESS_VARIED)
        found.remarks.append(str(remark))
    return pairs


def both_ways(pairs: Sequence[Pair]) -> list[Pair]:
    """``pairs``, and behind them the links back, each once."""
    return list(dict.fromkeys([*pairs, *((dst, src) for src, dst in pairs)]))


def is_symmetric(entry: Field) -> bool:
    """True if ``entry`` holds both ways. Raises: ScenarioError."""
    field = entry.get("symmetric")
    return field is not None and field.boolean()


def shown(pair: Pair) -> str:
    """``edge-1 -> cloud-1``."""
    return f"{pair[0]} -> {pair[1]}"


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
