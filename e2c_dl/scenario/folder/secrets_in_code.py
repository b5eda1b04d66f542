"""Secrets in Python code: texts in quotes, and comments. Names, keywords and types are none, whatever they stand at.

::

    API_KEY = "sk-..."                      taken: a text at a secret's name, as {"api_key": "..."}, login(token="...")
    os.getenv("API_KEY", "sk-...")          taken
    run("docker login -p hunter22 host")    taken: it looks like a secret whatever its name
    if key == STATE_KEY: return             nothing
    # token: the user's own                 nothing: comments and docstrings have words behind a colon
"""

from __future__ import annotations

import ast
import bisect
import keyword
import re
import tokenize
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from itertools import accumulate, takewhile

from e2c_dl.redaction import SHORT, found_by_name
from e2c_dl.secret_names import is_secret, looks_secret

Span = tuple[int, int]
_GIVEN_NAME_AND_TEXT = frozenset({"get", "getenv", "setdefault", "setenv", "putenv", "setattr"})
_QUOTE = re.compile(r"[A-Za-z]*('''|\"\"\"|'|\")")
_NAMES = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_TYPE = re.compile(r"(?:u?int|b?float|complex|utf-?)\d+\.?", re.IGNORECASE)
_BEGINS, _ENDS = ("FSTRING_START", "TSTRING_START"), ("FSTRING_END", "TSTRING_END")  # since Python 3.12


@dataclass
class _Tokens:
    """Where texts in quotes and comments stand in a file, in their order, and which names it has."""

    quoted: list[Span] = field(default_factory=list)
    comments: list[Span] = field(default_factory=list)
    names: set[str] = field(default_factory=lambda: set(keyword.kwlist))


def secrets_in(text: str) -> Iterator[tuple[Span, str, str]]:
    """(where in ``text``, what it says, the name that it stands at, if any) of what looks like a secret."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)  # as Python counts them
    begins = list(accumulate(map(len, lines), initial=0))
    tokens = _tokens(text, begins)
    tree = _tree(text)
    for name, node in _named(tree):
        value = node.value.decode(errors="replace") if isinstance(node.value, bytes) else str(node.value)
        if is_secret(value, name):
            for begin, end in _within(tokens.quoted, _span(node, lines, begins)):
                quote = _QUOTE.match(text, begin)
                yield (quote.end(), end - len(quote[1])) if quote else (begin, end), value, name
    prose = {_span(node, lines, begins) for node in _said_to_readers(tree)} | set(tokens.comments)
    for place in (*tokens.quoted, *tokens.comments):
        for (begin, end), name in found_by_name(text[slice(*place)]):
            span = place[0] + begin, place[0] + end
            if _is_quoted(text, span) or _is_bare_secret(text, span, name, place in prose, tokens.names):
                yield span, text[slice(*span)], name
    for span, name in _across(text, sorted([*tokens.quoted, *tokens.comments]), readable=bool(tree.body)):
        yield span, text[slice(*span)], name


def _tokens(text: str, begins: list[int]) -> _Tokens:
    """As far as it can be read."""
    found, open_at = _Tokens(), []
    with suppress(tokenize.TokenError, SyntaxError):
        for kind, said, start, stop, _ in tokenize.generate_tokens(StringIO(text, newline="").readline):
            span = begins[start[0] - 1] + start[1], begins[stop[0] - 1] + stop[1]
            if tokenize.tok_name[kind] in _BEGINS:
                open_at.append(span[0])
            elif tokenize.tok_name[kind] in _ENDS:
                found.quoted.append((open_at.pop(), span[1]))
            elif kind == tokenize.STRING:
                found.quoted.append(span)
            elif kind == tokenize.COMMENT:
                found.comments.append(span)
            elif kind == tokenize.NAME:
                found.names.add(said)
    found.quoted.sort()
    return found


def _tree(text: str) -> ast.Module:
    """Of what is no Python, or another version's: nothing."""
    try:
        with warnings.catch_warnings():  # of how it is written
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """(name, text) of each text that is given to what is called a secret."""
    for node in ast.walk(tree):
        for name, value in _given(node):
            if looks_secret(name):
                yield from ((name, each) for each in _texts(value))


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """What ``node`` gives to which names."""
    if isinstance(node, ast.Assign):
        yield from ((_called(target), node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        yield _called(node.target), node.value
    elif isinstance(node, ast.keyword):
        yield node.arg or "", node.value
    elif isinstance(node, ast.Dict):
        yield from ((_text(key), value) for key, value in zip(node.keys, node.values, strict=True))
    elif isinstance(node, ast.arguments):
        places = [*node.posonlyargs, *node.args]
        yield from zip((each.arg for each in places[len(places) - len(node.defaults) :]), node.defaults, strict=True)
        yield from zip((each.arg for each in node.kwonlyargs), node.kw_defaults, strict=True)
    elif isinstance(node, ast.Call):
        yield from _given_in_a_call(node, _called(node.func))


def _given_in_a_call(call: ast.Call, what: str) -> Iterator[tuple[str, ast.expr]]:
    """Beside those that are given to arguments of their name."""
    if what in _GIVEN_NAME_AND_TEXT:
        yield from ((_text(name), value) for name, value in zip(call.args, call.args[1:], strict=False))
    elif what == "add_argument" and call.args:
        yield from ((_text(call.args[-1]), each.value) for each in call.keywords if each.arg == "default")
    elif what == "login":  # wandb's
        yield from (("api_key", each.value) for each in call.keywords if each.arg == "key")


def _called(target: ast.expr) -> str:
    """The last part of what is given something: ``self.token``, ``environ["TOKEN"]``."""
    if isinstance(target, ast.Subscript):
        return _text(target.slice)
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(node: ast.expr | None) -> Iterator[ast.Constant]:
    """Those of which ``node`` is made: ``a or "..."``, ``"..." if a else "..."``, ``"..." + a``, ``"...".strip()``."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Constant) and isinstance(part.value, (str, bytes)):
            yield part
        elif isinstance(part, ast.BoolOp):
            waiting += part.values
        elif isinstance(part, ast.IfExp):
            waiting += [part.body, part.orelse]
        elif isinstance(part, ast.BinOp):
            waiting += [part.left, part.right]
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            waiting.append(part.func.value)


def _said_to_readers(tree: ast.Module) -> Iterator[ast.expr]:
    """Texts that nothing is done with, such as docstrings."""
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and _text(node.value))


def _span(node: ast.expr, lines: list[str], begins: list[int]) -> Span:
    """Python counts bytes of UTF-8 within a line."""
    ends = ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0))
    begin, end = (begins[line - 1] + len(lines[line - 1].encode()[:at].decode(errors="ignore")) for line, at in ends)
    return begin, end


def _within(spans: list[Span], whole: Span) -> Iterator[Span]:
    first = bisect.bisect_left(spans, (whole[0], 0))
    return takewhile(lambda span: span[1] <= whole[1], spans[first:])


def _is_quoted(text: str, span: Span) -> bool:
    return text[span[0] - 1 : span[0]] in ("'", '"')


def _is_bare_secret(text: str, span: Span, name: str, prose: bool, names: Collection[str]) -> bool:
    """Whether it is more than a name of the program, a placeholder, or a word that a sentence goes on with."""
    said = text[slice(*span)]
    if len(said) < SHORT or said[0] == "%" or (_NAMES.fullmatch(said) and said.split(".")[0] in names):
        return False
    if not prose and (not name or text[span[0] - 1] == "="):
        return True
    return any(map(str.isdigit, said)) and _TYPE.fullmatch(said) is None


def _across(text: str, places: list[Span], *, readable: bool) -> Iterator[tuple[Span, str]]:
    """What begins in one text or comment and ends in another, as lines of a private key do.

    Of what is not ``readable`` as Python also a text that stands behind a name.
    """
    starts = [begin for begin, _ in places]
    for span, name in found_by_name(text):
        first, last = (bisect.bisect_right(starts, at) - 1 for at in (span[0], span[1] - 1))
        in_several = not name and 0 <= first < last and span[0] < places[first][1]
        if in_several or (name and not readable and _is_quoted(text, span)):
            yield span, name
