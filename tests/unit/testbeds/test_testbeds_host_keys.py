"""Which host keys are accepted, on every way to a host, and what is said when one is not."""

import shlex

import pytest

from e2c_dl.testbeds import host_keys
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.programs import ssh_argv


def reached(**more) -> Access:
    return Access(
        name="edge-1", address="10.0.0.1", data_address="", data_device="", user="root", keyfile="/key", port=22,
        python="python3", run_dir="", **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "checked", "file"),
    [
        ({}, "no", "/dev/null"),
        ({"host_keys": "unchecked"}, "no", "/dev/null"),
        ({"host_keys": "known"}, "yes", None),
        ({"host_keys": "/etc/keys"}, "yes", "/etc/keys"),
    ],
)
def test_ssh_and_ansible_accept_the_same_keys(said, checked, file):
    access = reached(**said)
    argv = ssh_argv(access, "id")
    assert f"StrictHostKeyChecking={checked}" in argv
    assert [word.partition("=")[2] for word in argv if word.startswith("UserKnownHostsFile")] == [file] * bool(file)
    assert ("GlobalKnownHostsFile=/dev/null" in argv) is bool(file)  # ssh's own files are looked at for "known" alone
    variables = host_keys.ansible_variables(access.host_keys)
    assert variables["ansible_host_key_checking"] is (checked == "yes")
    given = shlex.split(variables["ansible_ssh_common_args"])
    assert argv[1 : 1 + len(given)] == given and "BatchMode=yes" in given


UNKNOWN = "No ED25519 host key is known for h and you have requested strict checking.\r\nHost key verification failed."
CHANGED = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."


@pytest.mark.parametrize(
    ("trusted", "port", "said", "line"),
    [
        ("known", 22, UNKNOWN, "its host key is not in ~/.ssh/known_hosts; compare it"),
        ("known", 2222, UNKNOWN, "`ssh-keyscan -p 2222 h >> ~/.ssh/known_hosts`"),
        ("/keys", 22, UNKNOWN, "its host key is not in /keys"),
        ("/keys", 22, CHANGED, "its host key is not the one in /keys: another machine may be answering"),
        ("/keys", 2222, CHANGED, "`ssh-keygen -R [h]:2222 -f /keys`"),
    ],
)
def test_a_refusal_names_file_and_remedy(trusted, port, said, line):
    told = host_keys.refusal(trusted, "h", port, said)
    assert told is not None and line in told and "host_keys: unchecked" in told
    assert "\n" not in told


def test_other_failures_are_not_taken_for_it():
    assert host_keys.refusal("known", "h", 22, "connect to host h port 22: Connection refused") is None
