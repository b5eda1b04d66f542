"""What a host does by itself so that a program of the user's can train on it: ``python -m ... < place``.

Writes the files of :mod:`wrappers`, starts the run's sshd, and, where the host is thrown away afterwards, leads
``horovodrun`` and ``python`` of every login there. Prints what it did as JSON, or, on standard error, why it could not.
"""

from __future__ import annotations

import base64
import dataclasses
import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2c_dl import resources
from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.own_programs import LOGINS, containers, identity
from e2c_dl.testbeds.own_programs.wrappers import BOOTSTRAP, KEY, TRACES, Place, place_of

_OF_ITS_OWN = ("overlayfs", "tmpfs")  # file systems of private roots and containers
_PROFILE = Path("/etc/profile.d/zz-e2c-dl.sh")  # after those that set PATH anew
_SEARCH = os.defpath + ":/usr/local/sbin:/usr/sbin:/sbin"


def set_up(place: Place) -> dict[str, object]:
    """Everything, again if it was there before; what of it a workflow can rely on. Raises: TestbedError."""
    folder = Path(place.run_dir)
    _write(folder / "bin", place.programs(), executable=True)
    if place.bootstraps:
        _have_bootstrap(folder)
    _let_in(place, folder)
    disposable = place.is_ours and _has_own_files(place)
    if disposable:
        _lead_there(place)
    if place.container is not None:
        dockerd = shutil.which("dockerd", path=_search()) if disposable and os.geteuid() == 0 else None
        run_id = place.environ.get("E2CDL_RUN", "")
        gpu = place.container.gpu and (not place.gpu_of_slot or _has_gpus())  # docker refuses what is not there
        seen = dataclasses.replace(place.container, gpu=gpu, volumes=(*_seen(place), *place.container.volumes))
        containers.start(seen, _program("docker"), dockerd, run_id, place.run_dir, place.exported)
    return {"bin": place.bin, "on_path": disposable}


def _have_bootstrap(folder: Path) -> None:
    """What Python runs first has one path on all hosts, and so a place in the environment that their ranks share."""
    link = folder / BOOTSTRAP
    link.unlink(missing_ok=True)
    link.symlink_to(resources.bootstrap_dir())
    (folder / TRACES).mkdir(exist_ok=True)


def _seen(place: Place) -> tuple[str, ...]:
    """What a container must see of its host beside the run's directory: this package, if its programs begin with it."""
    package = resources.bootstrap_dir().parents[1]
    return (f"{package}:{package}:ro",) if place.bootstraps else ()


def _has_gpus() -> bool:
    return any(Path("/dev").glob("nvidia[0-9]*"))


def _let_in(place: Place, folder: Path) -> None:
    """The run's sshd listens. A host alone needs none."""
    if len(place.members) < 2:
        return
    ssh, sshd, keygen = (_program(name) for name in ("ssh", "sshd", "ssh-keygen"))
    public = _ran([keygen, "-y", "-f", str(folder / KEY)]).strip()
    _write(folder / "ssh", place.ssh_files(public, getpass.getuser(), ssh), executable=False)
    (folder / "ssh/ssh").chmod(0o700)
    Path("/run/sshd").mkdir(exist_ok=True) if os.access("/run", os.W_OK) else None
    environ = {"PATH": os.environ.get("PATH", _SEARCH), **place.environ}
    _ran([sshd, "-f", str(folder / "ssh/sshd_config"), "-E", str(folder / "ssh/log")], environ)


def _has_own_files(place: Place) -> bool:
    """Whether what is changed goes with the host: where logins search is not the controller's, and can be written."""
    return all(
        identity(path) not in ("", place.of_controller.get(path))
        and _ran(["stat", "--file-system", "--format=%T", path]).strip() in _OF_ITS_OWN
        and os.access(path, os.W_OK)
        for path in LOGINS
    )


def _lead_there(place: Place) -> None:
    """Every login finds the wrappers by name."""
    _PROFILE.write_text(f"PATH={place.bin}:$PATH\nexport PATH\n", encoding="utf-8")
    for name in place.programs():
        link = Path("/usr/local/bin", name)
        link.unlink(missing_ok=True)
        link.symlink_to(f"{place.bin}/{name}")


def _write(folder: Path, texts: dict[str, str], *, executable: bool) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755 if executable else 0o600)


def _program(name: str) -> str:
    found = shutil.which(name, path=_search())
    if found is None:
        package = "docker.io" if name == "docker" else "openssh-server openssh-client"
        raise TestbedError(f"there is no {name} here; apt-get install {package}")
    return found


def _search() -> str:
    return f"{os.environ.get('PATH', '')}:{_SEARCH}"


def _ran(argv: list[str], environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise TestbedError(f"{Path(argv[0]).name} failed: {said[-1]}")
    return done.stdout


def main() -> None:
    """Read a Place from standard input, as JSON in base64, and set it up; exit status 1 where that failed."""
    try:
        print(json.dumps(set_up(place_of(json.loads(base64.b64decode(sys.stdin.read()))))))
    except (TestbedError, OSError) as error:
        sys.exit(str(error))  # to standard error, which E2Clab's failure tells


if __name__ == "__main__":
    main()
