"""Secrets of twenty kinds, each where users put them, for tests that look for them in what a run leaves."""

import base64
import json
import os
import secrets
import shlex
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

# Made up; each is long enough not to stand anywhere by chance.
KINDS = {
    "registry_password": "hunter22/with+odd=marks",
    "wandb_api_key": "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c",
    "aws_secret_access_key": "wJalrXUtnFEMIK7MDENGbPxRfiCYplantedKEY1",
    "aws_id": "AKIA" + "PLANTEDPLANTED12",
    "github": "ghp_" + "plantedplantedplantedplanted123456",
    "gitlab": "glpat-" + "plantedPlanted-1234",
    "huggingface": "hf_" + "plantedplantedplantedplanted",
    "openai": "sk-" + "plantedplantedplantedplanted12",
    "slack": "xoxb-" + "111111111111-planted",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.cGxhbnRlZHNpZ25hdHVyZQ",
    "url": "planted:at@url".replace(":", "-").replace("@", "-"),
    "curl": "planted-of-curl",
    "bearer": "planted.of.bearer.0123",
    "exported": "planted-in-a-script",
    "flag": "planted-as-a-flag",
    "docker_login": "planted-docker-login",
    "wandb_login": "planted-wandb-login-0123456789",
    "nested": "planted-in-a-list",
    "environment": "planted-in-the-environment",
    "pem": "MIIEowIBAAKCAQEAplantedplantedplantedplantedplantedplanted",
}

GIVEN = ("registry_password", "wandb_api_key", "aws_secret_access_key", "nested", "environment", "pem")
"""Kinds that no command of the workflow's own has in it: those are on a command line of its host."""

SERVICE = f"""
    registry_password: "{KINDS["registry_password"]}"
    wandb_api_key: {KINDS["wandb_api_key"]}
    aws_secret_access_key: '{KINDS["aws_secret_access_key"]}'
    all_tokens: {KINDS["nested"]}
"""
"""Keys of a service in layers_services.yaml."""

TASKS = f"""
    - name: "Says {KINDS["github"]}"
      ansible.builtin.shell: "echo {KINDS["gitlab"]} {KINDS["huggingface"]} {KINDS["openai"]} >> ~/told"
    - ansible.builtin.shell: "true || curl -u planted:{KINDS["curl"]} https://planted:{KINDS["url"]}@host.invalid/x"
    - ansible.builtin.shell: "true || curl -H 'Authorization: Bearer {KINDS["bearer"]}'"
    - ansible.builtin.shell: "echo {KINDS["jwt"]} {KINDS["slack"]}"
    - ansible.builtin.shell: "export SOME_TOKEN={KINDS["exported"]}; env | grep SOME >> ~/told; echo {KINDS["aws_id"]}"
    - ansible.builtin.shell: "true || python main.py --api-key {KINDS["flag"]}"
    - ansible.builtin.shell: "true || docker login -u me -p {KINDS["docker_login"]} host.invalid"
    - ansible.builtin.shell: "true || wandb login {KINDS["wandb_login"]}"
    - ansible.builtin.copy:
        dest: ~/key.pem
        content: |
          -----BEGIN RSA PRIVATE KEY-----
          {KINDS["pem"]}
          -----END RSA PRIVATE KEY-----
"""
"""Of a workflow."""


def of_this_test() -> dict[str, str]:
    """KINDS that no test beside this one plants: who searches the whole machine finds its own."""
    return {kind: f"{value}{secrets.token_hex(4)}" for kind, value in KINDS.items()}


def exported(kinds: Mapping[str, str]) -> str:
    """A shell script that puts each of ``kinds`` into the environment, under a name that says what it is."""
    return "".join(f"export PLANTED_{kind.upper()}_TOKEN={shlex.quote(value)}\n" for kind, value in kinds.items())


@contextmanager
def command_lines() -> Iterator[set[bytes]]:
    """While in it, the command lines of all processes that begin on this machine are gathered, also its hosts'."""
    lines: set[bytes] = set()
    over = threading.Event()
    before = set(os.listdir("/proc"))  # looking at all of them again and again takes a tenth of a processor

    def watch() -> None:
        there = before
        while not over.wait(0.02):
            now = set(filter(str.isdigit, os.listdir("/proc")))
            there = there & now  # a number may come again
            for name in now - there:
                with suppress(OSError):  # it has ended
                    lines.add(Path("/proc", name, "cmdline").read_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield lines
    finally:
        over.set()
        watching.join()


def held(
    archive: Path, *more: bytes, kinds: Collection[str] = tuple(KINDS), values: Mapping[str, str] = KINDS
) -> set[tuple[str, str]]:
    """(kind, where) of each secret that a file of ``archive``, or ``more``, holds in any form."""
    found = {str(path): path.read_bytes() for path in archive.rglob("*") if path.is_file()}
    found |= {f"text {number}": text for number, text in enumerate(more)}
    sought = [(kind, form) for kind in kinds for form in forms(values[kind])]
    return {(kind, where) for where, data in found.items() for kind, form in sought if form in data}


def forms(value: str) -> set[bytes]:
    """How ``value`` may come back."""
    encoded = {base64.b64encode(b"x" * ahead + value.encode()).decode()[4:-4] for ahead in range(3)}
    plain = {value, quote(value, safe=""), json.dumps(value)[1:-1], value.encode().hex()}
    return {form.encode() for form in {*plain, *(each for each in encoded if len(each) >= 8)}}
