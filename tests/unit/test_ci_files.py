"""The workflow files that people copy: they parse, and every command in them exists, with its options."""

import importlib
import re

import pytest
import yaml

from e2c_dl.cli.main import COMMANDS

FILES = ("ci/github-smoke-test.yml", "ci/gitlab-smoke-test.yml")


@pytest.fixture(params=FILES)
def text(request, repository):
    return (repository / request.param).read_text()


def commands(text):
    """The lines that a job runs, of either file."""
    job = yaml.safe_load(text)
    jobs = job.get("jobs", {"one": job.get("first-light")})
    for each in jobs.values():
        steps = [step.get("run", "") for step in each.get("steps", [])]
        for lines in [*steps, *each.get("before_script", []), *each.get("script", [])]:
            yield from lines.splitlines()


def test_every_make_target_exists(text, repository):
    makefile = (repository / "Makefile").read_text()
    targets = [word for line in commands(text) for word in re.findall(r"\bmake (?!\")([a-z-]+)$", line)]
    assert targets == ["setup"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_command_of_ours_exists_with_its_options(text):
    ours = [line.partition("e2c-dl ")[2].split() for line in commands(text) if "e2c-dl " in line]
    assert [words[0] for words in ours] == ["doctor", "deploy", "verify"]
    for name, *words in ours:
        module, attribute, _ = COMMANDS[name]
        command = getattr(importlib.import_module(module), attribute)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_what_is_run_stands_in_the_tree(text, repository):
    variables = yaml.safe_load(text)
    scenario = (variables.get("env") or variables.get("variables"))["SCENARIO"]
    assert (repository / scenario / "layers_services.yaml").is_file()
    assert (repository / "artifacts").is_dir()


def test_the_archive_is_kept_whatever_comes_of_the_run(text):
    job = yaml.safe_load(text)
    if "jobs" in job:
        upload = job["jobs"]["first-light"]["steps"][-1]
        assert upload["uses"].startswith("actions/upload-artifact@") and upload["if"] == "always()"
        assert upload["with"]["path"].endswith("/smoke-test")
    else:
        assert job["first-light"]["artifacts"] == {"when": "always", "paths": ["$TREE/smoke-test"]}
