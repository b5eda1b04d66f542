"""The workflow files that people copy: they parse, and every command in them exists, with its arguments."""

import re
import shlex
import shutil
import subprocess
from string import Template

import pytest
import yaml

from ci import rehearse
from e2c_dl.cli.main import find

DOCKER = "ci/github-docker-smoke-test.yml"
VAGRANT = "ci/github-vagrant-smoke-test.yml"
FILES = ("ci/github-smoke-test.yml", "ci/gitlab-smoke-test.yml", DOCKER, VAGRANT)
PROGRAMS = "ci/github-programs.yml"


def test_what_runs_alone_is_where_make_test_looks_for_it(repository):
    assert "pytest -m 'alone $(THOROUGH)' tests/local " in (repository / "Makefile").read_text()
    marked = [
        path for path in (repository / "tests").rglob("test_*.py") if re.search(r"mark\.alone\b", path.read_text())
    ]
    assert marked and {path.relative_to(repository).parts[1] for path in marked} == {"local"}


def test_no_folder_of_tests_is_left_out_by_make_test(repository):
    """They are named, since what waits for an idle processor has two of its own."""
    makefile = (repository / "Makefile").read_text()
    recipes = makefile[makefile.index("\ntests-side-by-side:") : makefile.index("\n.PHONY: docs")]
    folders = {path.parent.relative_to(repository).parts[1] for path in (repository / "tests").rglob("test_*.py")}
    assert set(re.findall(r"\btests/([a-z]+)\b", recipes)) == folders


@pytest.fixture(params=FILES)
def text(request, repository):
    return (repository / request.param).read_text()


def commands(text):
    """The lines that a job runs, of either file, variables filled in."""
    workflow = yaml.safe_load(text)
    known = rehearse.variables(workflow) | {"USER": "me"}
    for step in rehearse.steps(workflow):
        yield from (Template(line).substitute(known) for line in step.script.splitlines())


def test_every_make_target_exists(text, repository):
    makefile = (repository / "Makefile").read_text()
    targets = [word for line in commands(text) for word in re.findall(r"\bmake (?!\")([a-z-]+)$", line)]
    assert targets == (["setup-vagrant"] if "--on vagrant" in text else ["setup"])
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_command_of_ours_exists_with_its_arguments(text, repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("experiments", "artifacts"):
        (tmp_path / name).symlink_to(repository / name)
    (tmp_path / "smoke-test").mkdir()  # what deploy has made by then
    ours = [shlex.split(line.partition("e2c-dl ")[2]) for line in commands(text) if "e2c-dl " in line]
    on_docker = [words for words in ours if words[0] in ("doctor", "deploy") and "docker" in words]
    image = ["image"] if on_docker else []  # before anything else: what deploys on docker looks for it
    assert [words[0] for words in ours] == [*image, "doctor", "deploy", "verify"]
    for name, *words in ours:
        find(name).make_context(name, words)  # parsed, not run


def test_on_docker_it_is_the_same_but_for_where_its_hosts_are(repository):
    docker, local = (list(commands((repository / name).read_text())) for name in (DOCKER, FILES[0]))
    image = [line for line in docker if " image " in line]
    assert [line.replace("--on docker", "--on local") for line in docker if line not in image] == local


def test_on_vagrant_it_is_the_same_but_for_where_its_hosts_are(repository):
    vagrant, local = (list(commands((repository / name).read_text())) for name in (VAGRANT, FILES[0]))
    same = [line.replace("--on vagrant --memory 1536MiB", "--on local").replace("--on vagrant", "--on local")
            .replace("setup-vagrant", "setup") for line in vagrant if "systemctl" not in line]  # fmt: skip
    assert same == local


def test_after_a_failure_only_what_is_always_done_is_rehearsed(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: None)  # no sudo here
    job = {"steps": [
        {"uses": "actions/checkout@v4"},
        {"name": "one", "run": "echo $SAID; false; echo not this"},
        {"name": "two", "run": "echo nor this"},
        {"name": "three", "if": "always()", "run": "sudo --preserve-env=SAID echo last"},
    ]}  # fmt: skip
    found = rehearse.steps({"jobs": {"a": job}})
    assert rehearse.rehearsed(found, tmp_path, {"PATH": "/usr/bin:/bin", "SAID": "hello"}) == 1
    said = capfd.readouterr().out.splitlines()
    assert "hello" in said and "last" in said and "not this" not in said and "nor this" not in said


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        ({"jobs": {"a": {"steps": [{"name": "one", "run": "false | true\necho after"}]}}}, ["after"]),
        ({"a": {"before_script": ["false | true"], "script": ["echo after"]}}, []),
    ],
)
def test_a_pipe_fails_with_any_of_its_programs_where_the_runner_says_so(tmp_path, capfd, workflow, said):
    status = rehearse.rehearsed(rehearse.steps(workflow), tmp_path, {"PATH": "/usr/bin:/bin"})
    assert status == (0 if said else 1)
    assert [line for line in capfd.readouterr().out.splitlines() if line == "after"] == said


def test_the_jobs_are_bash_that_parses(text):
    for step in rehearse.steps(yaml.safe_load(text)):
        assert subprocess.run(["bash", "-n", "-c", step.script], check=False).returncode == 0


def test_what_is_run_stands_in_the_tree(text, repository):
    scenario = rehearse.variables(yaml.safe_load(text))["SCENARIO"]
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


def test_what_the_job_of_horovod_makes_exists(repository):
    """And is bash; the wheel that it builds is where it looks for it the next time."""
    text = (repository / PROGRAMS).read_text()
    steps = rehearse.steps(yaml.safe_load(text))
    made = [word for step in steps for word in re.findall(r"\bmake ([a-z-]+)$", step.script)]
    assert made == ["setup-horovod", "test-programs"]
    makefile = (repository / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in made)
    assert all(subprocess.run(["bash", "-n", "-c", step.script], check=False).returncode == 0 for step in steps)
    assert text.count("e2c-dl-cache") == 4
