"""Known secrets are taken out of text in whatever form they come back."""

import base64
import html
import json
import os
import subprocess
from collections.abc import Iterator
from itertools import chain
from urllib.parse import quote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import KINDS, forms

from e2c_dl.archive.redact import redacted
from e2c_dl.redaction import Redactor, of_command, of_environment, without_found
from e2c_dl.secret_names import REDACTED, looks_secret

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


SAYS = "VALUE=$1; declare -p VALUE"
ODD = (
    "it's \"q\" & <x> $HOME `id`", "line-one-secret\nline two secret",
    "p\xe4ssw\xf6rd-\u043a\u043b\u044e\u0447", "\U0001f600pw\U0001f600",
    "C:\\new\\tok", "100%25off%20now", "{{secret}}x", "a+b/c==d+e,f", "abc\x01def\x7fghi", "x" * 200,
)  # fmt: skip


def as_programs_write(value: str) -> Iterator[str]:
    """``value`` as it comes back from programs that people use."""
    raw = value.encode()
    yield from (json.dumps(json.dumps([value])), repr([value]), repr(raw), html.escape(value, quote=False))
    yield from (yaml.safe_dump([value], default_style=style, width=9999) for style in (None, "'", '"'))
    yield yaml.safe_dump([value], default_style='"', allow_unicode=True, width=9999)
    yield json.dumps({"auths": {"r": {"auth": base64.b64encode(b"me:" + raw).decode()}}})
    yield base64.encodebytes(b"somebody-with-a-long-name:" + raw).decode()
    if value.isprintable():  # else bash writes $'\\001', which is not looked for
        for shell, script in (("bash", "set -x; true"), ("sh", "set -x; true"), ("bash", "printf %q"), ("bash", SAYS)):
            argv = [shell, "-c", script if script == SAYS else f'{script} "$1"', "x", value]
            done = subprocess.run(argv, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8", **os.environ})
            said = (done.stdout + done.stderr).decode(errors="surrogateescape")
            yield from (said, json.dumps([said]), repr([said]))


@pytest.mark.parametrize("value", ODD)
def test_odd_values_are_found_as_programs_write_them(value: str) -> None:
    redactor = Redactor([value])
    assert [text for text in as_programs_write(value) if REDACTED not in redactor.text(text)] == []


def test_a_value_may_be_no_text() -> None:
    value = b"planted\xff\xfeplanted"
    redactor = Redactor([value.decode(errors="surrogateescape")])
    assert redactor.data(b"a " + value + b" b") == b"a REDACTED b"


def test_short_values_are_replaced_where_they_stand_alone() -> None:
    redactor = Redactor(["main", "ab"])
    assert redactor.text("main.py domain main ab cab; main") == f"main.py domain {REDACTED} ab cab; {REDACTED}"


@pytest.mark.parametrize("value", ["hunt2", "4711", "a+b/c=d"])
def test_a_short_value_at_the_end_of_what_is_in_base64(value: str) -> None:
    redactor = Redactor([value])
    for before in ("", "m:", "me:", "you:", "somebody-else:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            for whole in (encode(f"{before}{value}{end}".encode()).decode() for end in ("", "\n")):
                assert REDACTED in redactor.text(json.dumps({"auth": whole}))
                assert redactor.text(f"{whole[:-4].rstrip('=')}AAAAAAAA") == f"{whole[:-4].rstrip('=')}AAAAAAAA"


def test_lines_of_a_key_are_found_one_by_one() -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{KINDS['pem']}\n-----END PRIVATE KEY-----"
    assert KINDS["pem"] not in Redactor([key]).text(f"  {KINDS['pem']}\r\n")


def test_hex_is_found_in_lines_of_any_length() -> None:
    key = f"{KINDS['pem']}\n{KINDS['aws_secret_access_key']}"
    for value in key.splitlines():
        written = f"0a{value.encode().hex()}0a"
        for width in (7, 30, 60):
            folded = "\n".join(written[at : at + width] for at in range(0, len(written), width))
            assert Redactor([key]).text(folded).replace("\n", "") == f"0a{REDACTED}0a"


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
        "max-new-tokens",
        "tokens_per_batch",
        "total_tokens",
    )
    assert [name for name in counts if looks_secret(name)] == []


def test_a_value_is_hidden_whole_where_its_beginning_looks_like_one() -> None:
    value = "it's planted & long"
    said = f"PLANTED_TOKEN={value}\n".encode()
    assert redacted(said, Redactor([value]), log=True) == b"PLANTED_TOKEN=REDACTED\n"


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("export A_TOKEN='it'\"'\"'s \"x\" y'", "export A_TOKEN=REDACTED"),
        ('  B_API_KEY="a b\\"c" main.py', "  B_API_KEY=REDACTED main.py"),
        ("C_TOKEN=it\\'s\\ planted", "C_TOKEN=REDACTED"),
        ('export D_TOKEN="$OTHER"', 'export D_TOKEN="$OTHER"'),
        ("E_TOKEN=''", "E_TOKEN=''"),
        ("mysql -u me -pplanted db", "mysql -u me -pREDACTED db"),
        ("mysql -u me -p db", "mysql -u me -p db"),
        ("echo 'me:planted' | sudo chpasswd", "echo 'me:REDACTED' | sudo chpasswd"),
        ("setenv A_TOKEN planted", "setenv A_TOKEN REDACTED"),
        ("set -x A_TOKEN planted", "set -x A_TOKEN REDACTED"),
        ("machine host login me password planted", "machine host login me password REDACTED"),
        ("<password>planted</password>", "<password>REDACTED</password>"),
        ("docker login --password-stdin <<< planted", "docker login --password-stdin <<< REDACTED"),
        ("git clone https://planted-0123456789@host/x", "git clone https://REDACTED@host/x"),
        ("git clone https://somebody@host/x", "git clone https://somebody@host/x"),
        ("https://host/blob?sv=1&sig=pl%2Fanted", "https://host/blob?sv=1&sig=REDACTED"),
        ("https://hooks.slack.com/services/T0/B0/planted", "https://hooks.slack.com/services/REDACTED"),
        ("curl -H 'Authorization: token planted-01'", "curl -H 'Authorization: token REDACTED'"),
        ("curl -H 'Authorization: token {{ planted }}'", "curl -H 'Authorization: token {{ planted }}'"),
        ("SECRET_KEY=planted", "SECRET_KEY=REDACTED"),
        ("mot_de_passe: planted", "mot_de_passe: REDACTED"),
    ],
)
def test_what_looks_like_a_secret_is_one_value(line: str, stays: str) -> None:
    assert without_found(line) == stays


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["m.py", "--passwd", "planted"], ["m.py", "--passwd", "REDACTED"]),
        (["m.py", "--auth", "planted words", "x"], ["m.py", "--auth", "REDACTED", "x"]),
        (["m.py", "--key=planted"], ["m.py", "--key=REDACTED"]),
        (["env", "A_TOKEN=it is planted", "m.py"], ["env", "A_TOKEN=REDACTED", "m.py"]),
        (["bash", "-c", "LR=0.1 TOKEN=planted m.py"], ["bash", "-c", "LR=0.1 TOKEN=REDACTED m.py"]),
        (["m.py", "https://me:planted@host/x"], ["m.py", "https://me:REDACTED@host/x"]),
        (["curl", "-u", "me:planted", "host"], ["curl", "-u", "me:REDACTED", "host"]),
        (["curl", "-H", "Authorization: Bearer planted-01"], ["curl", "-H", "Authorization: Bearer REDACTED"]),
        (["m.py", f"hf_{'planted' * 3}"], ["m.py", "REDACTED"]),
        (["m.py", "--use_auth_token", "--token", "planted"], ["m.py", "--use_auth_token", "--token", "REDACTED"]),
        (["m.py", "--no-auth", "--password", "planted-1"], ["m.py", "--no-auth", "--password", "REDACTED"]),
        (["m.py", "--no-auth", "--password=planted"], ["m.py", "--no-auth", "--password=REDACTED"]),
        (["m.py", "--no-auth", "-password", "planted"], ["m.py", "--no-auth", "REDACTED", "REDACTED"]),
        (["m.py", "--token=--planted", "--auth="], ["m.py", "--token=REDACTED", "--auth="]),
        (["m.py", "--auth=", "--password", "planted"], ["m.py", "--auth=", "--password", "REDACTED"]),
        (["m.py", "--api-key", "-planted1"], ["m.py", "--api-key", "REDACTED"]),
        (["sh", "-c", "m.py --no-auth --token planted"], ["sh", "-c", "m.py --no-auth --token REDACTED"]),
    ],
)
def test_a_command_is_told_without_what_looks_like_a_secret(command: list[str], told: list[str]) -> None:
    assert of_command(command) == tuple(told)


@pytest.mark.parametrize(
    "command",
    [
        "m.py --max_tokens 512 --max-tokens=512 --tokenizer gpt2 --token $HERE",
        "m.py --use_auth_token --learning_rate 5e-5 --no-auth --epochs=3 x",
        "pretrain.py --train-tokens 300000000000 --lr-warmup-tokens 1000 --decay_tokens=1.5e9 --tokens 300B",
        "m.py --tokenizer gpt2 --pad-token [PAD] --mask_token=<mask> --eos-token </s> --sort-key len --dict_key=x",
        "m.py --block Basic --num-layers 18",
    ],
)
def test_words_of_a_command_that_are_no_secrets_stay(command: str) -> None:
    assert of_command(command.split()) == tuple(command.split())


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: Token embeddings differ",
        "ValueError: tokens: expected 5 got 6",
        "AssertionError: token=50257 is out of range",
        "unexpected key in state_dict: tokens: weight",
        "Basic residual blocks, Bearer channels",
        "TRAIN_TOKENS=300000000000",
    ],
)
def test_what_is_said_of_the_tokens_of_a_text_stays(said: str) -> None:
    assert without_found(said) == said


@pytest.mark.parametrize(
    "said",
    [
        "--tokens 1234567890123456", "API_TOKENS=12345-planted", "--token 12345678", "HF_TOKEN=123456",
        "api_tokens: planted", "Bearer 4planted", "Token planted-1", "Basic planted/planted/planted",
        "--monkey-key 4", "--mask_token_secret planted",
    ],
)  # fmt: skip
def test_what_looks_like_a_count_is_a_secret_at_its_name_or_length(said: str) -> None:
    assert REDACTED in " ".join(of_command(said.split()))


SECRET = "Zq7xW9pLm3Kd8RtYab"


@pytest.mark.parametrize(
    "said",
    [
        f"OPENAI_KEY={SECRET}",
        f"export GITHUB_PAT={SECRET}",
        f"MY_CREDS={SECRET}",
        f"wandb.login(key='{SECRET}')",
        f'wandb.login(relogin=True, key="{SECRET}")',
        f"Cookie: session={SECRET}; path=/",
        f"{{'Cookie': 'a=b; sid={SECRET}'}}",
        f"hvs.{SECRET}{SECRET}",
    ],
)
def test_what_libraries_and_services_call_a_secret_is_hidden(said: str) -> None:
    assert SECRET not in without_found(said)


@pytest.mark.parametrize(
    "said",
    [
        "sort_key=by_time_and_host", "SORT_KEY=by_time_and_host", "CACHE_KEY=linux-py311-abcdef",
        "monkey=patched_already", "MONKEY=patched_already", "key=12345678", "PATTERN=something_long",
        "cookie: is not set here", "dapi is an interface of databases", "DATA_PATH=relative/folder",
    ],
)  # fmt: skip
def test_what_only_sounds_like_it_stays(said: str) -> None:
    assert without_found(said) == said


def test_variables_hold_secrets_by_their_name_or_by_what_they_say() -> None:
    held = {
        "OPENAI_KEY": f"sk-proj-{SECRET}", "DATABASE_URL": f"postgresql://me:{SECRET}@db/x",
        "MODEL": f"hf_{SECRET}{SECRET}", "SLACK": f"https://hooks.slack.com/services/T0/B0/{SECRET}",
    }  # fmt: skip
    other = {"HOME": "/srv", "PWD": "/srv/work", "PATH": "/bin:/usr/bin", "LS_COLORS": "rs=0:di=01;34", "KEY": "a"}
    found = of_environment(held | other)
    assert found.keys() == held.keys()
    assert found["DATABASE_URL"] == (SECRET,), "wherever it stands, not the URL alone"
    assert all(SECRET in each for each in chain.from_iterable(found.values()))


def test_of_several_secrets_in_one_variable_none_stays() -> None:
    urls = f"postgres://app:{SECRET}{SECRET}@db1/x,postgres://app:another-Pw4db2@db2/x"
    held = of_environment({"DATABASE_URLS": urls})
    assert held == {"DATABASE_URLS": (SECRET + SECRET, "another-Pw4db2")}
    known = Redactor(chain.from_iterable(held.values()))
    assert known.text("no log in to db2 as app with another-Pw4db2") == f"no log in to db2 as app with {REDACTED}"
