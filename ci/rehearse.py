"""Runs the commands of a workflow file as its runner would, in a fresh copy of this tree, and says how long each took.

::

    python -m ci.rehearse ci/github-smoke-test.yml [--without VARIABLE ...] [--into DIRECTORY]

GitHub: every ``run`` is a ``bash -e`` of its own; after a failure only those with ``if: always()``. GitLab:
before_script and script are one ``bash -eo pipefail``: there a pipe fails with any of its programs. Variables are those
of the file, over this machine's; ``--without`` leaves one out (``TORCH_INDEX``, where PyTorch's own index cannot be
reached). Where there is no sudo, ``sudo`` is left out. Actions (checkout, upload) and the image are the runner's: here
the copy stands for the first, the directory with what came out for the second, this machine for the third. Exit code:
of the first failure.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TREE = Path(__file__).resolve().parent.parent
GITHUB_SHELL = ("bash", "-e")  # where a step names none
GITLAB_SHELL = ("bash", "-eo", "pipefail")
_SUDO = re.compile(r"\bsudo (?:--\S+ )*")


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one shell runs. ``always``: after a failure too."""

    name: str
    shell: tuple[str, ...]
    script: str
    always: bool = False


def variables(workflow: Mapping[str, Any]) -> dict[str, str]:
    """What the file puts into the environment of every step."""
    return {name: str(value) for name, value in (workflow.get("env") or workflow["variables"]).items()}


def steps(workflow: Mapping[str, Any]) -> tuple[Step, ...]:
    """Those of the only job, in order, of either kind of file."""
    if "jobs" not in workflow:
        ((name, job),) = ((key, value) for key, value in workflow.items() if "script" in value)
        script = "\n".join([*job.get("before_script", []), *job["script"]])
        return (Step(name=name, shell=GITLAB_SHELL, script=script),)
    (job,) = workflow["jobs"].values()
    return tuple(
        Step(name=step["name"], shell=GITHUB_SHELL, script=step["run"], always=step.get("if") == "always()")
        for step in job["steps"]
        if "run" in step
    )


def rehearsed(chosen: tuple[Step, ...], folder: Path, environ: Mapping[str, str]) -> int:
    """Run them in ``folder``; the status of the first that failed, else 0."""
    failed = 0
    for step in chosen:
        if failed and not step.always:
            continue
        script = step.script if shutil.which("sudo") else _SUDO.sub("", step.script)
        print(f"== {step.name}\n{script}", flush=True)
        begun_s = time.monotonic()
        done = subprocess.run([*step.shell, "-c", script], cwd=folder, env=dict(environ), check=False)
        print(f"== {step.name}: status {done.returncode}, {time.monotonic() - begun_s:.0f} s", flush=True)
        failed = failed or done.returncode
    return failed


def copied(tree: Path, into: Path) -> None:
    """The files of ``tree`` that git has or would have, in ``into``: as a clone, with what is not committed yet."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in _listed(subprocess.run(argv, cwd=tree, capture_output=True, check=True).stdout, tree):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, into / name, follow_symlinks=False)


def _listed(said: bytes, tree: Path) -> Iterator[str]:
    for name in said.decode().split("\0"):
        if name and os.path.lexists(tree / name):  # git still has what was removed a moment ago
            yield name


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m ci.rehearse", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workflow", type=Path)
    parser.add_argument("--without", action="append", default=[], metavar="VARIABLE")
    parser.add_argument("--into", type=Path, metavar="DIRECTORY", help="where the copy goes, and stays")
    said = parser.parse_args()
    workflow = yaml.safe_load(said.workflow.read_text(encoding="utf-8"))
    environ = {**os.environ, "USER": getpass.getuser(), "CI": "true", **variables(workflow)}
    for name in said.without:
        environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="e2c-rehearsal-") as temporary:
        folder = said.into or Path(temporary)
        copied(TREE, folder)
        return rehearsed(steps(workflow), folder, environ)


if __name__ == "__main__":
    sys.exit(main())
