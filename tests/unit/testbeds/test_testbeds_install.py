"""What is installed on hosts is this very tree: a version has many. Wheels of one line stand in for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from e2c_dl.errors import TestbedError
from e2c_dl.resources import playbooks_dir
from e2c_dl.testbeds.e2clab.trainer import tree_of
from e2c_dl.testbeds.e2clab.upstream import ANSIBLE_SETTINGS

NAME = "e2c_dl-0.2.0-py3-none-any.whl"


def wheel(folder: Path, says: str, *, year: int = 2020) -> Path:
    """A wheel of one module, built in that year."""
    folder.mkdir(exist_ok=True)
    metadata = "Metadata-Version: 2.1\nName: e2c_dl\nVersion: 0.2.0\n"
    texts = {
        "e2c_dl.py": f"SAYS = {says!r}\n",
        "e2c_dl-0.2.0.dist-info/METADATA": metadata,
        "e2c_dl-0.2.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "e2c_dl-0.2.0.dist-info/RECORD": f"e2c_dl.py,sha256={says},1\n",
    }
    with zipfile.ZipFile(folder / NAME, "w") as file:
        for name, text in texts.items():
            file.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), text)
    return folder / NAME


def test_two_trees_of_one_version_are_told_apart_whenever_they_were_built(tmp_path: Path) -> None:
    first = tree_of(wheel(tmp_path, "one"))
    assert first == tree_of(wheel(tmp_path, "one", year=2021)) != tree_of(wheel(tmp_path, "two"))
    assert first.isalnum()
    (tmp_path / "no.whl").write_text("no")
    for path in ("no.whl", "not-there.whl"):
        with pytest.raises(TestbedError, match="is no wheel"):
            tree_of(tmp_path / path)


@pytest.mark.slow
def test_another_tree_of_the_same_version_is_installed_over_the_one_before(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    (tmp_path / "constraints.txt").write_text("")
    (tmp_path / "ansible.cfg").write_text("[defaults]\nstdout_callback = json\n")

    def said_by(says: str, **more: object) -> tuple[int, str]:
        """(tasks that changed something, what the host has then), once the playbook has run with that wheel."""
        of_tree = wheel(tmp_path / says, says)
        variables = {
            "e2cdl_version": "0.2.0", "e2cdl_tree": tree_of(of_tree), "e2cdl_wheel": str(of_tree),
            "e2cdl_venv": str(venv), "e2cdl_python": f"{venv}/bin/python", "e2cdl_base_python": sys.executable,
            "e2cdl_shared": False, "e2cdl_constraints": str(tmp_path / "constraints.txt"), "e2cdl_extras": "",
            "e2cdl_pip_arguments": ["--no-index", "--no-compile"], "e2cdl_apt": False,
            "ansible_python_interpreter": sys.executable, **more,
        }  # fmt: skip
        argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "host,", "-c", "local"]
        argv += ["--extra-vars", json.dumps(variables), str(playbooks_dir() / "install.yaml")]
        places = {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "ansible")}
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # a host has no tree in it
        environ = {**own, **ANSIBLE_SETTINGS, **places, "ANSIBLE_REMOTE_TEMP": str(tmp_path / "ansible")}
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-500:]
        asked = [f"{venv}/bin/python", "-I", "-c", "import e2c_dl; print(e2c_dl.SAYS)"]
        has = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        return json.loads(done.stdout)["stats"]["host"]["changed"], has

    assert said_by("one")[1] == "one"
    assert said_by("one") == (0, "one")
    assert said_by("two")[1] == "two"
    (venv / "e2c_dl.tree").unlink()  # an environment that was made otherwise, such as of an image
    assert said_by("one") == (0, "two")
