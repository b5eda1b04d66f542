"""Secrets taken out of text: known values in whatever form they come back, and what looks like one.

::

    found(text)                 what looks like a secret in free text: `export X_TOKEN=...`, `-u me:...`, a private key
    of_command(words)           a command without what looks like one
    Redactor(values)(data)      ``data`` with REDACTED in place of every value, also as URL, base64, JSON, HTML, hex

Short values are words that stand elsewhere by chance: of 4 to 7 characters they are replaced where they stand alone,
in base64 where they end what was encoded, shorter ones only where their own key or variable names them. What is
compressed or encrypted cannot be seen.
"""

from __future__ import annotations

import base64
import html
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote, quote_plus

import yaml

from e2c_dl.secret_names import NAME, ORDINARY, REDACTED, is_secret, looks_secret

LONG = 8  # characters: such a value is replaced wherever it stands
SHORT = 4  # and one shorter than this nowhere but at its own name

_VALUE = r"(?P<value>[^\s\"'`,;&|<>(){}\[\]\\]+)"
_QUOTED = rf"(?![\"']?\{{\{{)(?:\"(?P<double>[^\"\n]+)\"|'(?P<single>[^'\n]+)'|{_VALUE})"
_SHELL_WORD = r"(?=[^\s=]*['\"\\])(?:'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\"|\\.|[^\s'\"`\\;&|<>(){}])+"
_FORMS = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (rf"(?<![\w-])[\"']?(?P<name>{NAME})\\?[\"']?\s*(?::=|=|:)\s*\\?{_QUOTED}", re.IGNORECASE),  # NAME=, "name":
        (rf"^\s*(?:export\s+)?(?P<name>{NAME})=(?P<value>{_SHELL_WORD})", re.IGNORECASE | re.MULTILINE),
        (rf"--(?P<name>{NAME})(?:=|\s+(?!--[a-z])){_QUOTED}", re.IGNORECASE),  # else it is a switch: --no-auth --x
        (rf"\b(?:docker|podman|helm|oras)\b[^\n|;&]*\blogin\b[^\n|;&]*?\s-p\s*{_QUOTED}", 0),
        (rf"\bsshpass\s+-p\s*{_QUOTED}", 0),
        (rf"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]*?\s-p{_QUOTED}", 0),
        (r"\becho\s+[\"']?[\w.-]+:(?!\{\{)(?P<value>[^\s\"']+)[\"']?\s*\|[^\n|;&]*\bchpasswd\b", 0),
        (rf"\b(?:setenv|set\s+-\w+)\s+(?P<name>{NAME})\s+{_QUOTED}", re.IGNORECASE),  # csh, fish
        (rf"\bmachine\s+\S+\s+login\s+\S+\s+password\s+{_QUOTED}", 0),  # .netrc
        (rf"<(?P<name>{NAME})>(?P<value>[^<\s]+)</", re.IGNORECASE),
        (rf"\b(?:wandb|huggingface-cli|hf)\s+(?:auth\s+)?login\s+(?:--\S+\s+)*(?!-){_QUOTED}", 0),
        (rf"\bwandb\.login\([^)\n]*?\bkey\s*=\s*{_QUOTED}", 0),
        (r"\bcookie[\"']?:\s*[\"']?(?P<value>[\w.-]+=[^\r\n\"']{8,})", re.IGNORECASE),
        (rf"(?:echo|printf)\s+(?:-n\s+|%s\s+)?{_QUOTED}\s*\|[^\n]*--password-stdin", 0),
        (r"(?:\s-u|--user)[\s=]*[\"']?[\w.@+-]+:(?!\{\{)(?P<value>[^\s\"']+)", 0),
        (r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']*:(?!\{\{)(?P<value>[^\s/@\"']+)@", re.IGNORECASE),
        (rf"--password-stdin\s*<<<\s*{_QUOTED}", 0),
        (r"\bhttps?://(?!\{\{)(?P<value>[^\s/:@\"'?#]{16,})@", re.IGNORECASE),  # a token in place of a user
        (r"[?&](?:sig|signature|X-(?:Amz|Goog)-Signature)=(?!\{\{)(?P<value>[^\s&\"'#]+)", re.IGNORECASE),
        (r"\bhooks\.slack\.com/services/(?P<value>[\w/-]{8,})", 0),
        (r"\b(?:Bearer|Basic|Token)\s+(?!--)(?=\S*\d|\S{20})(?P<value>[\w.~+/=-]{8,})", 0),  # else an English word
        (r"\bauthorization:\s*(?:\w+\s+)?(?!\{\{)(?P<value>[\w.~+/=-]{8,})", re.IGNORECASE),
        (r"(?P<value>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL),
        (
            r"(?<![\w-])(?P<value>gh[pousr]_\w{20,}|github_pat_\w{20,}|gl(?:pat|dt|rt)-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|"
            r"sk-[\w-]{20,}|A[KS]IA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|AIza[\w-]{35}|npm_\w{30,}|pypi-[\w-]{30,}|"
            r"dckr_pat_[\w-]{20,}|hvs\.[\w-]{20,}|dapi[0-9a-f]{32}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)",
            0,
        ),
    )
)
_OPTION = re.compile(r"--[A-Za-z]")  # what a word begins with that is no other option's value
_BASH_ESCAPES = re.compile(r"[\s'\"\\$`!&()*;<>?\[\]^{|},]")


def of_environment(environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Its variables that hold secrets -> those: no short ones, which stand elsewhere by chance, nor paths.

    By their name, or since parts of the value look like one, such as a password in a URL: then it is those parts.
    """
    held = {name: tuple(filter(_stands_alone, _secrets_of(name, value))) for name, value in environ.items()}
    return {name: some for name, some in held.items() if some}


def _secrets_of(name: str, value: str) -> tuple[str, ...]:
    if looks_secret(name) and is_secret(value, name):
        return (value,)
    return tuple(dict.fromkeys(value[first:last] for first, last in found(value)))


def _stands_alone(secret: str) -> bool:
    return len(secret) >= LONG and not os.path.isabs(secret)


def found(text: str) -> Iterator[tuple[int, int]]:
    """Where in ``text`` a value begins and ends that looks like a secret; in no order, and they may overlap."""
    return (span for span, _ in found_by_name(text))


def found_by_name(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    """As :func:`found`, each with the name that it stands at; empty, if it has another form."""
    for form in _FORMS:
        for match in form.finditer(text):
            group = next(name for name in ("value", "double", "single") if match.groupdict().get(name) is not None)
            name = match.groupdict().get("name") or ""
            if is_secret(match[group].strip("\"'"), name) and ORDINARY.search(name) is None:
                yield match.span(group), name


def without_found(text: str) -> str:
    """``text`` with REDACTED in place of what looks like a secret."""
    return without_spans(text, found(text))


def without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """``text`` with REDACTED in place of each of ``spans``, and once for those that overlap."""
    end, kept = 0, []
    for begin, until in sorted(spans):
        if begin >= end:
            kept += [text[end:begin], REDACTED]
        end = max(end, until)
    return "".join([*kept, text[end:]])


def of_command(command: Sequence[str]) -> tuple[str, ...]:
    """``command`` with REDACTED in place of what looks like a secret, within a word or across (``--token X``)."""
    looks = tuple(found(" ".join(command)))
    words: list[str] = []
    begin, hide = 0, ""  # the option whose value comes next
    for word in command:
        option = _OPTION.match(word) is not None
        spans = [
            (max(first - begin, 0), min(last - begin, len(word)))
            for first, last in looks
            if not (option and first == begin)
        ]
        name, equals, value = word.partition("=")
        secret = looks_secret(name.lstrip("-")) or (name.lower().endswith("key") and not ORDINARY.search(name))
        if hide and not option and is_secret(word, hide):
            spans.append((0, len(word)))  # with its blanks
        elif secret and equals and is_secret(value, name):
            spans.append((len(name) + 1, len(word)))
        words.append(without_spans(word, [(first, last) for first, last in spans if first < last]))
        hide = name if secret and not equals and word.startswith("-") else ""
        begin += len(word) + 1
    return tuple(words)


class Redactor:
    """Replaces known secrets. The empty one changes nothing."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = tuple(sorted({value for value in values if len(value.strip()) >= SHORT}))
        forms = {form for value in self.values for form in _written(value)}
        patterns = [_pattern(form) for form in sorted(forms, key=len, reverse=True)]  # a value may begin another
        whole = {part for value in self.values for part in (value, *_lines(value))}
        patterns += [_wrapped(form) for value in whole for form in (*_in_base64(value), *_in_hex(value))]
        patterns += [_ending(form) for value in self.values for form in _short_in_base64(value)]
        self._pattern = re.compile(b"|".join(patterns)) if patterns else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def data(self, data: bytes) -> bytes:
        """``data`` without any of the secrets."""
        return data if self._pattern is None else self._pattern.sub(REDACTED.encode(), data)

    def text(self, text: str) -> str:
        """``text`` without any of the secrets."""
        return (
            text
            if self._pattern is None
            else self.data(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")
        )

    def holds(self, data: bytes) -> bool:
        """Whether any of the secrets stands in ``data``."""
        return self._pattern is not None and self._pattern.search(data) is not None

    def value(self, value: object) -> object:
        """``value`` of lists, mappings and text, without any of the secrets in its text."""
        return in_texts(value, self.text)


def in_texts(value: object, act: Callable[[str], str]) -> object:
    """``value`` of lists, mappings and text, each text of it as ``act`` makes it; keys stay."""
    if isinstance(value, str):
        return act(value)
    if isinstance(value, dict):
        return {key: in_texts(inner, act) for key, inner in value.items()}
    return [in_texts(inner, act) for inner in value] if isinstance(value, (list, tuple)) else value


def _pattern(form: bytes) -> bytes:
    """``form`` wherever it stands, or alone if it is short. Begins with its first byte, by which texts are skimmed."""
    if len(form) >= LONG:
        return re.escape(form)
    first = re.escape(form[:1])
    return first + rb"(?<![\w.-]" + first + rb")" + re.escape(form[1:]) + rb"(?![\w.-])"


def _wrapped(form: bytes) -> bytes:
    """``form`` in lines of any length, as base64 and hex are written; in JSON, too."""
    return rb"(?:\\r|\\n|[\r\n])*".join(re.escape(bytes([each])) for each in form)


def _ending(form: bytes) -> bytes:
    """``form`` at the end of what is in base64."""
    return re.escape(form) + rb"(?![\w+/-])"


def _written(value: str) -> Iterator[bytes]:
    """``value`` in the forms in which programs write it."""
    text = value.strip()
    raw = text.encode(errors="surrogateescape")
    plain = {text, quote(raw, safe=""), quote_plus(raw), quote(raw), html.escape(text), html.escape(text, quote=False)}
    plain |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1], repr(raw)[2:-1]}
    plain |= _of_shells(text) | _of_yaml(text)
    plain |= {form.replace("\\", "\\\\") for form in plain}  # JSON within JSON, as Ansible's results
    quoted = {
        form.replace("\\", "\\\\").replace("'", "\\'") for form in plain
    }  # as Python's repr of what has both quotes
    plain |= quoted | {json.dumps(form, ensure_ascii=False)[1:-1] for form in plain}
    plain |= {re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in plain if "%" in form}
    yield from (form.encode(errors="surrogateescape") for form in plain)
    yield from (line.encode(errors="surrogateescape") for line in _lines(text))


def _lines(value: str) -> list[str]:
    """The lines of a value that has several: a key may be indented, or its line ends changed."""
    lines = [line.strip() for line in value.strip().splitlines()]
    return [line for line in lines if len(line) >= LONG and not line.startswith("-----")] if len(lines) > 1 else []


def _of_shells(text: str) -> set[str]:
    """As they quote it: `set -x` of dash and bash, `export -p`, printf's %q."""
    in_double = re.sub(r'(["$`\\])', r"\\\1", text)
    return {shlex.quote(text), text.replace("'", r"'\''"), in_double, _BASH_ESCAPES.sub(r"\\\g<0>", text)}


def _of_yaml(text: str) -> set[str]:
    """In quotes of either kind; longer than a line it is folded at blanks, which is not looked for."""
    both = (yaml.safe_dump(text, default_style='"', allow_unicode=plain, width=math.inf) for plain in (False, True))
    return {text.replace("'", "''"), *(form.strip()[1:-1] for form in both)}


def _in_hex(value: str) -> Iterator[bytes]:
    """As `xxd -p` writes it; none if it is short."""
    raw = value.strip().encode(errors="surrogateescape")
    yield from (raw.hex().encode(), raw.hex().upper().encode()) if len(raw) >= LONG else ()


def _in_base64(value: str) -> Iterator[bytes]:
    """Base64 of anything that ``value`` stands in, wherever it begins in a group of three; none if it is short."""
    raw = value.strip().encode(errors="surrogateescape")
    for ahead in range(3) if len(raw) >= LONG else ():
        shifted = base64.b64encode(b"\0" * ahead + raw)
        begin, end = (0, 2, 3)[ahead], len(shifted) - (0 if (ahead + len(raw)) % 3 == 0 else 4)
        if end - begin >= LONG:
            whole = shifted[begin + (1 if ahead else 0) : end] if ahead else shifted[:end]
            yield from {whole, whole.translate(bytes.maketrans(b"+/", b"-_"))}


def _short_in_base64(value: str) -> Iterator[bytes]:
    """The end of base64 of what ends with the short ``value``, or with it and a line's end, as `echo` adds one."""
    raw = value.strip().encode(errors="surrogateescape")
    for ahead in range(3) if len(raw) < LONG else ():
        for whole in (raw, raw + b"\n"):
            end = base64.b64encode(b"\0" * ahead + whole)[(0, 2, 3)[ahead] :].rstrip(b"=")
            yield from {end, end.translate(bytes.maketrans(b"+/", b"-_"))}
