"""A whole run with secrets of twenty kinds: none is in its archive, its logs, its output or our command lines."""

import os
import subprocess
from pathlib import Path

import pytest
from machine_files import spoils, unchanged
from planted_secrets import GIVEN, KINDS, SERVICE, TASKS, command_lines, forms, held
from whole_runs import COMMAND, LIMIT_S, scenario

from e2c_dl.archive.verify import verify

pytestmark = [pytest.mark.local, pytest.mark.slow]

PREPARE = """
    - ansible.posix.synchronize: {src: "{{ artifacts_dir }}/app", dest: "~"}
    - ansible.builtin.copy: {src: "{{ artifacts_dir }}/data.tar.gz", dest: /tmp/}
    - ansible.builtin.unarchive: {src: /tmp/data.tar.gz, dest: /dev/shm, remote_src: true}
    - ansible.builtin.shell: "cat ~/app/main.py /dev/shm/app/main.py >~/told && echo MARK >/etc/profile.d/z.sh"
    - ansible.builtin.shell: "mkdir -p /opt/x /my-spack && ln -s /srv /my-spack/view && echo MARK >>~/.profile"
    - ansible.builtin.shell: "for f in /etc/services /usr/bin/x /usr/lib/x /tmp/e2cdl-x; do echo MARK >>$f; done"
    - ansible.builtin.file: {path: /etc/issue, state: absent}
    - ansible.builtin.shell: "SPOILS"
"""
FINALIZE = """
    - ansible.builtin.find: {paths: "~", patterns: "told,key.pem", recurse: true}
      register: found
    - ansible.builtin.fetch: {src: "{{ item.path }}", dest: "{{ working_dir }}/", flat: false}
      with_items: "{{ found.files }}"
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> tuple[Path, str, set[bytes]]:
    """(the archive, what was printed, the command lines of this program meanwhile)."""
    place = tmp_path_factory.mktemp("run")
    (place / "artifacts/app").mkdir(parents=True)
    (place / "artifacts/app/main.py").write_text("print('trained')\n")
    subprocess.run(["tar", "-czf", "data.tar.gz", "app"], cwd=place / "artifacts", check=True)
    workflow = repository / "experiments/first-light/workflow.yaml"
    folder = scenario(place / "scenario", workflow, iterations=2, shapes=True, hosts=2)
    (folder / "workflow_env.yaml").write_text("planted:" + SERVICE)
    workflow = folder / "workflow.yaml"
    text = workflow.read_text()
    environ = {**os.environ, "SOME_API_KEY": KINDS["environment"]}
    argv = [*COMMAND, "deploy", str(folder), str(place / "artifacts"), "--archive", str(place / "archive")]
    with unchanged(besides=tmp_path_factory.getbasetemp()) as mark, command_lines() as lines:
        prepare = PREPARE.replace("SPOILS", spoils(mark)).replace("MARK", mark)
        workflow.write_text(text.replace("\n  prepare:", f"\n  prepare:{prepare}{TASKS}", 1) + FINALIZE)
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
    return place / "archive", said, lines


def test_no_secret_is_in_the_archive(ended: tuple[Path, str, set[bytes]]) -> None:
    assert (ended[0] / "logs/e2clab.log").is_file()
    assert held(ended[0]) == set()


def test_no_secret_is_told_or_on_a_command_line(ended: tuple[Path, str, set[bytes]]) -> None:
    _, said, lines = ended
    assert [kind for kind, value in KINDS.items() if holds(said.encode(), value)] == []
    assert [kind for kind in GIVEN if holds(b"\n".join(lines), KINDS[kind])] == []


def test_the_archive_is_whole_and_its_scenario_says_what_must_be_given_again(
    ended: tuple[Path, str, set[bytes]],
) -> None:
    archive, said, _ = ended
    assert not verify(archive)
    assert "is a secret" in said and "env:REGISTRY_PASSWORD" in said
    argv = [*COMMAND, "check", str(archive / "scenario")]
    checked = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "registry_password was hidden when this was archived" in checked


def test_what_the_workflow_fetched_is_there_and_what_it_wrote_is_not_here(
    ended: tuple[Path, str, set[bytes]],
) -> None:
    fetched = [path for path in (ended[0] / "fetched").rglob("*") if path.is_file()]
    assert sorted(path.name for path in fetched) == ["key.pem", "key.pem", "told", "told"]
    assert "trained" in next(path for path in fetched if path.name == "told").read_text()
    assert not Path("/etc/profile.d/z.sh").exists()


def holds(data: bytes, value: str) -> bool:
    return any(form in data for form in forms(value))
