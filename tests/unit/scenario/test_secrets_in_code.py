"""Secrets in a scenario's own code: texts in quotes are taken, and no name, keyword or type."""

import ast
import io
import json
import token
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import KINDS

from e2c_dl.redaction import Redactor
from e2c_dl.scenario.folder.secret_values import hidden, planted, redactor_of
from e2c_dl.secret_names import REDACTED

SECRET = "Zq7xW9pLm3Kd8RtYab"


@pytest.mark.parametrize(
    "line",
    [
        'API_KEY = "{}"', "self.token = '{}'", 'os.environ["HF_TOKEN"] = "{}"', 'login(token="{}")',
        'd = {{"api_key": "{}"}}',
        'PASSWORD: Final = r"{}"', 'def f(a, *, password="{}"): pass', 'def f(password="{}"): pass',
        'x = (token := "{}")',
        'os.getenv("API_KEY", "{}")', 'API_KEY = os.getenv("API_KEY") or "{}"', 'TOKEN = b"{}"', 'MAPS_KEY = "{}"',
        'parser.add_argument("-t", "--token", default="{}")', 'run("docker login -p {} host")', '# API_KEY = "{}"',
        '"""Its password: {}"""', 'run("PASSWORD={} ./it")', 'run(f"TOKEN={} {{x}}")', 'open("https://me:{}@host/")',
        'é = 1; TOKEN = "{}"', 'class A:\n  token = """{}"""', 'wandb.login(key="{}")', "print 'old'\nrun('TOKEN={}')",
        'token = "{}" if here else None', 'TOKEN = "{}" + a', 'TOKEN = "{}".strip()',
        'y = "token: {}"', "# curl -u me:{}", 'x = ["--token {}", "a"]',
    ],
)  # fmt: skip
def test_a_secret_is_hidden_and_the_code_is_what_it_was_without_it(line: str, tmp_path: Path) -> None:
    text = f"import os\n\n{line.format(SECRET)}\nx = 1\n"
    left = hidden(text, Redactor(), code=True)
    assert left == f"import os\n\n{line.format(REDACTED)}\nx = 1\n"
    (tmp_path / "code").mkdir()
    (tmp_path / "code/mine.py").write_text(text)
    assert SECRET not in redactor_of(tmp_path, {}).text(f"it said {SECRET} aloud")


ORDINARY = '''
"""My own network. Its token: an int64 tensor; authorization: required. Call login(token=seen).

The password: the user's own.
"""
import re
from typing import Final

BATCH_KEY = "batch_size"
STATE_KEY: Final = "hidden_state"
DIGIT_PAT = re.compile("[0-9]+")
FILE_PAT = "*.parquet"
N_KEY = 12
EMB_KEY = f"emb.{BATCH_KEY}"

def seen(key, auth_token: str = None, authorization: str = "", password: Final = None):
    # unless key == AUTH_TOKEN: return early; auth: see below; token: int32
    if key == AUTH_TOKEN: return True
    if key == BATCH_KEY: return False
    token = auth_token or password or get(STATE_KEY, "momentum_buffer")
    other = {STATE_KEY: "hidden", **dict(token=token, auth=seen)}
    raise ValueError("unexpected token: expected a name; token=%s auth=%08x" % (token, f"token={token!r}"))
    log(f"password={password}", "use --token TOKEN", "token=auth_token", key == "planted" == token == "planted")
'''


def test_code_without_a_secret_is_left_alone() -> None:
    assert planted(ORDINARY, code=True) == ()
    assert hidden(ORDINARY, Redactor(), code=True) == ORDINARY


def test_a_scenario_with_a_constant_keeps_its_keys_and_its_code(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/my_net.py").write_text(ORDINARY)
    assert not redactor_of(tmp_path, {"ROUTING_KEY": "allreduce"})


def test_a_value_in_parts_is_known_whole_and_hidden_in_each() -> None:
    text = 'TOKEN = ("Zq7xW9pL"\n         "m3Kd8RtYab")\n'
    assert hidden(text, Redactor(), code=True) == f'TOKEN = ("{REDACTED}"\n         "{REDACTED}")\n'
    assert {each.value for each in planted(text, code=True)} == {SECRET}


@pytest.mark.parametrize("form", ['"""{}"""', '"{}"'])
def test_a_private_key_is_hidden_in_one_text_and_in_several(form: str) -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", KINDS["pem"], "-----END PRIVATE KEY-----"]
    whole = form.format("\n".join(lines)) if '"""' in form else "\n".join(json.dumps(f"{line}\n") for line in lines)
    left = hidden(f"x = (\n{whole})\ny = 1\n", Redactor(), code=True)
    assert KINDS["pem"] not in left
    assert ast.unparse(ast.parse(left)).endswith("y = 1")


@pytest.mark.parametrize(
    "broken", ["print 'of Python 2'", "{% if jinja %}", '"""left open', "if key == AUTH_TOKEN: return :"]
)
def test_of_code_that_cannot_be_read_what_is_in_quotes_is_hidden(broken: str) -> None:
    text = f'{broken}\nAPI_KEY = "{SECRET}"\nd = {{"token": "{SECRET}"}}\n'
    assert hidden(text, Redactor(), code=True) == text.replace(SECRET, REDACTED)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXTS)
def test_nothing_breaks_it(text: str) -> None:
    for each in (
        text,
        f"TOKEN = {text}",
        f'API_KEY = "{text}"\n{text}',
        f"# password={text}\r\x0c{text}\rTOKEN = 'abcdefgh'",
    ):
        for one in planted(each, code=True):
            assert 0 <= one.span[0] <= one.span[1] <= len(each)


@given(st.lists(st.tuples(st.sampled_from(("TOKEN", "state", "X_KEY", "PASSWORD: str")), TEXTS), max_size=5))
def test_what_is_hidden_is_within_quotes(lines: list[tuple[str, str]]) -> None:
    text = "".join(f"{name} = {said!r}  # {name} = return\n" for name, said in lines)
    assert code_of(hidden(text, Redactor(), code=True)) == code_of(text)


def code_of(text: str) -> list[str]:
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    return [one.string for one in read if one.type in (token.NAME, token.OP, token.NUMBER)]
