"""Known secrets are taken out of text in whatever form they come back."""

import base64
import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import KINDS, forms

from e2c_dl.redaction import REDACTED, Redactor, looks_secret

VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)


@given(VALUES, st.binary(max_size=10), st.binary(max_size=10))
def test_base64_of_anything_that_holds_it(value: str, before: bytes, after: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(before + value.encode() + after)
        assert Redactor([value]).data(whole) != whole


@given(VALUES.filter(lambda value: len(value) >= 20))
def test_no_form_stays(value: str) -> None:
    whole = [base64.b64encode(b"x" * ahead + value.encode() + b"yyyyyy") for ahead in range(3)]
    written = [value.encode(), quote(value, safe="").encode(), json.dumps(json.dumps(value)).encode(), *whole]
    left = Redactor([value]).data(b" ".join(written))
    assert not any(form in left for form in forms(value))


def test_short_values_are_replaced_where_they_stand_alone() -> None:
    redactor = Redactor(["main", "ab"])
    assert redactor.text("main.py domain main ab cab; main") == f"main.py domain {REDACTED} ab cab; {REDACTED}"


def test_lines_of_a_key_are_found_one_by_one() -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{KINDS['pem']}\n-----END PRIVATE KEY-----"
    assert KINDS["pem"] not in Redactor([key]).text(f"  {KINDS['pem']}\r\n")


def test_what_is_no_text_is_told() -> None:
    assert Redactor(["planted-planted"]).holds(b"\0\1planted-planted\0")


def test_mappings_keep_their_keys() -> None:
    assert Redactor(["iteration"]).value({"iteration": ["iteration", 1]}) == {"iteration": [REDACTED, 1]}


def test_tokens_that_are_counted_are_no_secrets() -> None:
    secret = ("DOCKER_LOGIN_TOKEN", "campaign_token", "new_token_secret", "HF_TOKEN", "apikey", "g5k_pass")
    assert [name for name in secret if not looks_secret(name)] == []
    counts = (
        "max_tokens",
        "max_new_tokens",
        "n_tokens",
        "num_tokens",
        "MIN_TOKENS",
        "tokens_per_batch",
        "total_tokens",
    )
    assert [name for name in counts if looks_secret(name)] == []
