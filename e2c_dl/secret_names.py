"""What is called a secret, and what stands at such a name that is none.

::

    looks_secret("api_key")             whether a name speaks of one
    is_secret("offline", "api_key")     whether what stands there is one: no switch, no count, no word for where it is

A name of which only ``_KEY`` or ``_PAT`` speaks (``STATE_KEY``, ``FILE_PAT``) is a constant's more often than a
secret's: what stands there must look drawn at random, too.
"""

from __future__ import annotations

import re

REDACTED = "REDACTED"

_SAYS_SO = (
    r"passw(?:or)?d|passwd|pswd|passphrase|mot[_-]?de[_-]?passe|secret(?:[_-]?key)?|credentials?|tokens?|api[_-]?key|apikey|access[_-]?key|"
    r"private[_-]?key|(?:account|storage|client|master|session|signing|encryption|license|jwt|hmac|wandb|hf|ssh)[_-]?key|"
    r"g5k_pass|(?<![a-z])(?:pwd|pass|auth|creds?)"
)
_NUMBERED = r"(?:[_-](?:value|string|default|\d+))?"
NAME = rf"(?:[\w-]*?(?:{_SAYS_SO}|(?-i:[A-Z0-9]_(?:KEY|PAT))){_NUMBERED})"
_LOOKS_SECRET = re.compile(NAME, re.IGNORECASE)
_SURELY = re.compile(rf"[\w-]*?(?:{_SAYS_SO}){_NUMBERED}", re.IGNORECASE)
ORDINARY = re.compile(  # names of no secrets
    r"(?<![a-z])(?:max|min|num|n|new|total)[_-](?:[\w-]+[_-])?tokens?$|tokens?[_-](?:id|count|size|len|per)|tokeni[sz]e|"
    r"(?<![a-z])(?:pad|eos|bos|mask|sep|cls|unk|image)[_-]tokens?$|(?<![a-z])(?:sort|primary|foreign|partition|cache|group|dict)[_-]key$|"
    r"public[_-]",
    re.IGNORECASE,
)
_COUNTED = re.compile(  # NAME=VALUE of a text's tokens: how many, which of a vocabulary
    r"[\w-]*tokens=(?=.{1,15}$)\d[\d._]*(?:e[+-]?\d+)?[kmbt]?|tokens=[a-z]+|-*token=\d{1,6}", re.IGNORECASE
)
_UUID = re.compile(r"[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}", re.IGNORECASE)
_RUN = re.compile(r"[A-Za-z0-9]{16,}")
_BASE64 = re.compile(r"[\w+/-]{40,}={0,2}")
_LETTER_AFTER_DIGIT = re.compile(r"\d[A-Za-z]")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # as CamelCase has them
_OF_A_DATE = 3  # letters that one may have: 20240102T030405Z
_OF_A_WORD = 3.5  # letters; of what is drawn of capitals and small letters it is some two
_ELSEWHERE = re.compile(r"\{\{.*\}\}|\$\{?\w+\}?.*|\$\(.*|env:\w+|file:.+|<[\w -]+>|\*+|\.{3,}", re.DOTALL)
_NO_SECRETS = re.compile(rf"|null|none|~|true|false|yes|no|on|off|offline|online|{REDACTED}", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether a key, option or variable of this ``name`` holds a secret."""
    return _LOOKS_SECRET.fullmatch(name) is not None and ORDINARY.search(name) is None


def says_little(name: str) -> bool:
    """Whether no more than its end speaks of a secret, which a constant's does, too."""
    return looks_secret(name) and _SURELY.fullmatch(name) is None


def is_secret(value: str, name: str = "") -> bool:
    """Whether what stands at such a ``name`` is one: not empty, a switch, a count, nor a word for where it is."""
    text = value.strip()
    if _NO_SECRETS.fullmatch(text) or _ELSEWHERE.fullmatch(text) or _COUNTED.fullmatch(f"{name}={text}"):
        return False
    return looks_drawn(text) or not says_little(name)


def looks_drawn(value: str) -> bool:
    """Whether letters and digits of ``value`` are mixed as no name has them: hex, base64, a UUID; not ``Conv2d``."""
    whole = [value] if _BASE64.fullmatch(value) else []
    return _UUID.search(value) is not None or any(
        ((run.islower() or run.isupper()) and run.isalnum()) or _letters_per_word(run) < _OF_A_WORD
        for run in (*_RUN.findall(value), *whole)
        if _LETTER_AFTER_DIGIT.search(run) and sum(map(str.isalpha, run)) > _OF_A_DATE
    )


def _letters_per_word(text: str) -> float:
    words = _WORD.findall(text)
    return sum(map(len, words)) / max(len(words), 1)
