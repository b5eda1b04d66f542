"""Secrets in a scenario's files: found, hidden in copies, given from elsewhere."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planted_secrets import KINDS, SERVICE, TASKS

from e2c_dl.errors import ScenarioError
from e2c_dl.redaction import Redactor
from e2c_dl.scenario.folder.secret_values import hidden, planted, redactor_of, remarks, resolved
from e2c_dl.secret_names import REDACTED

LAYERS = f"layers:\n- name: cloud\n  services:\n  - name: Horovod{SERVICE}"
WORKFLOW = f"- hosts: cloud.*\n  prepare:{TASKS}"


@pytest.mark.parametrize("text", [LAYERS, WORKFLOW])
def test_all_kinds_are_hidden_and_what_is_left_is_the_same_but_for_them(text: str) -> None:
    left = hidden(text, Redactor())
    assert [kind for kind, value in KINDS.items() if value in left and value in text] == []
    assert len(left.splitlines()) >= len(text.splitlines()) - 2
    yaml.safe_load(left)


def test_every_kind_is_planted_somewhere() -> None:
    elsewhere = {"environment"}
    assert [kind for kind, value in KINDS.items() if value not in LAYERS + WORKFLOW] == sorted(elsewhere)


@pytest.mark.parametrize(
    "text",
    [
        'registry_password: ""',
        "wandb_api_key:",
        "wandb_mode: offline",
        "registry_password: env:REGISTRY_PASSWORD",
        'token: \'{{ lookup("env", "TOKEN") }}\'',
        "shell: docker login -p $PASSWORD host",
        "tokenizer: bert-base",
        "max_tokens: 512",
        "launch: {command: 'echo no secrets, only a tokenizer: bert'}",
        "- shell: python main.py --config base --tokenizer gpt2",
        "author: somebody",
        "- shell: curl -u 'me:{{ _self.g5k_pass }}' https://me:{{ token }}@host/",
    ],
)
def test_what_holds_no_secret_is_left_alone(text: str) -> None:
    assert planted(text) == ()
    assert hidden(text, Redactor()) == text


def test_a_short_value_is_hidden_at_its_key_alone() -> None:
    text = "password: ab\ncab: ab\n"
    assert hidden(text, Redactor()) == f"password: {REDACTED}\ncab: ab\n"


def test_a_variable_of_its_own_is_known_by_its_name() -> None:
    text = "env:\n- {name: DB_PASSWORD, value: planted-value}\n- {name: DB_HOST, value: host}\n"
    assert [(each.name, each.value) for each in planted(text)] == [("DB_PASSWORD", "planted-value")]


def test_anchors_and_blocks_stay_readable() -> None:
    text = "a: {password: &p secret-value}\nb: {password: *p}\nc:\n  token: |\n    one-long-token\n  d: 1\n"
    left = yaml.safe_load(hidden(text, Redactor()))
    assert left == {"a": {"password": REDACTED}, "b": {"password": REDACTED}, "c": {"token": REDACTED, "d": 1}}


def test_values_are_hidden_in_other_files_too(tmp_path: Path) -> None:
    (tmp_path / "layers_services.yaml").write_text("password: 'hunter22!x'\n")
    redactor = redactor_of(tmp_path, {"MY_TOKEN": "of-the-environment", "HOME": "/somewhere"})
    assert hidden("login hunter22!x of-the-environment /somewhere", redactor) == "login REDACTED REDACTED /somewhere"


def test_check_says_what_to_write_instead_and_what_to_give_again(tmp_path: Path) -> None:
    (tmp_path / "layers_services.yaml").write_text("a:\n  registry_password: hunter22\n  wandb_api_key: REDACTED\n")
    (tmp_path / "run.sh").write_text("export HF_TOKEN=planted-planted\n")
    first, second, third = remarks(tmp_path)
    assert first.startswith("layers_services.yaml:2: registry_password is a secret")
    assert "env:REGISTRY_PASSWORD" in first and "mode 0600" in first
    assert second.startswith("layers_services.yaml:3: wandb_api_key was hidden") and "env:WANDB_API_KEY" in second
    assert third.startswith("run.sh:1: ") and "$NAME" in third
    assert "hunter22" not in first


def test_secrets_come_from_the_environment_or_a_closed_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of a file: {}\n")
    (tmp_path / "key").chmod(0o600)
    file = tmp_path / "layers_services.yaml"
    file.write_text(f"password: env:MINE  # how\napi_key: file:{tmp_path}/key\nurl: env:MINE\n")
    text, values = resolved(file, {"MINE": 'of "mine"'})
    assert yaml.safe_load(text) == {"password": 'of "mine"', "api_key": "of a file: {}", "url": "env:MINE"}
    assert set(values) == {'of "mine"', "of a file: {}"}
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(ScenarioError, match=r"layers_services.yaml:2: api_key: .*others may read it; .*chmod 600"):
        resolved(file, {"MINE": "x"})
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ScenarioError, match=r"layers_services.yaml:1: password: the variable MINE is not set"):
        resolved(file, {})


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
def test_nothing_breaks_it(text: str) -> None:
    for each in (text, f"password: {text}", f"a:\n- token: [{text}]"):
        left = hidden(each, Redactor())
        assert hidden(left, Redactor()).count(REDACTED) >= left.count(REDACTED)


def test_a_secret_that_ansible_would_put_on_a_command_line_is_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(
        "- hosts: cloud.*\n  environment: &all\n    WANDB_API_KEY: \"{{ lookup('env', 'WANDB_API_KEY') }}\"\n"
        "    OMP_NUM_THREADS: 1\n  launch:\n  - shell: python main.py\n    environment: *all\n"
    )
    (line,) = remarks(tmp_path)
    assert line.startswith("workflow.yaml:3: WANDB_API_KEY under environment: stands on command lines; copy a file")


def test_a_variable_that_only_ends_as_a_secret_is_remarked_on_by_what_it_holds(tmp_path: Path) -> None:
    drawn = "0123456789abcdef" * 2
    (tmp_path / "workflow.yaml").write_text(
        f"- hosts: cloud.*\n  environment: {{ROUTING_KEY: allreduce, MAPS_KEY: {drawn}}}\n  launch: []\n"
    )
    assert [line.split(":")[2].split()[0] for line in remarks(tmp_path)] == ["MAPS_KEY", "MAPS_KEY"]
