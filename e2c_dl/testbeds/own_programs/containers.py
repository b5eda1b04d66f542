"""A container that a workflow's programs run in: its image found, started beside the host's own network.

::

    docker answers?  yes: it is used        no: a daemon of the run's own, where the host is thrown away afterwards
    the image is     there, or loaded from a file of `docker save`, or pulled
    NAME             sleeps until the workflow says what to do: `docker exec NAME ...`

Runs on the host. Containers carry the run's id as a label: whoever ends the run removes them by it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.errors import TestbedError

LABEL = "e2cdl.run"
_READY_S = 60.0
_POLL_S = 0.1
_QUIET = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false")


@dataclass(frozen=True, kw_only=True)
class Container:
    """What is asked for. ``image`` None: a daemon alone, the workflow starts containers itself."""

    name: str
    image: str | None
    archive: str | None = None  # a file of `docker save` on this host, which has the image
    gpu: bool = False
    volumes: tuple[str, ...] = ()  # as docker spells them: /data:/data:ro


def arguments(wanted: Container, run_id: str, run_dir: str, environ: Mapping[str, str]) -> list[str]:
    """What docker is told to start ``wanted`` with; the run's directory and shared memory are those of the host."""
    volumes = dict.fromkeys([f"{run_dir}:{run_dir}", "/dev/shm:/dev/shm", *wanted.volumes])
    argv = ["run", "--detach", f"--name={wanted.name}", f"--label={LABEL}={run_id}", "--network=host"]
    argv += [f"--env={name}={value}" for name, value in sorted(environ.items())]
    argv += [f"--volume={volume}" for volume in volumes]
    argv += ["--gpus=all"] * wanted.gpu
    return [*argv, "--entrypoint=sleep", str(wanted.image), "infinity"]


def start(
    wanted: Container, docker: str, dockerd: str | None, run_id: str, run_dir: str, environ: Mapping[str, str]
) -> None:
    """The container runs, or, without an image, a daemon answers. ``dockerd``: may be started where none does.

    Raises: TestbedError.
    """
    if _fault([docker, "version"]) is not None:
        if dockerd is None:
            why = "no docker daemon answers; start one: from here only hosts of root's that are thrown away get one"
            raise TestbedError(f"docker: true: {why}")
        _start_daemon(docker, dockerd, Path(run_dir))
    if wanted.image is None:
        return
    if _fault([docker, "image", "inspect", wanted.image]) is not None:
        got = (
            [docker, "load", "--input", wanted.archive] if wanted.archive else [docker, "pull", "--quiet", wanted.image]
        )
        fault = _fault(got)
        if fault is not None:
            raise TestbedError(f"image {wanted.image} cannot be had: {fault}; name one of your own with --image")
    _fault([docker, "rm", "--force", wanted.name])  # of an earlier deployment; of none it fails, which is as well
    fault = _fault([docker, *arguments(wanted, run_id, run_dir, environ)])
    if fault is not None:
        raise TestbedError(f"container {wanted.name} of image {wanted.image} does not start: {fault}")


def _start_daemon(docker: str, dockerd: str, run_dir: Path) -> None:
    """A daemon that ends with the host; vfs, as its files lie on what cannot be overlaid once more."""
    folder, log = run_dir / "docker", run_dir / "docker.log"
    places = [
        "--data-root",
        str(folder / "data"),
        "--exec-root",
        str(folder / "exec"),
        "--pidfile",
        str(folder / "pid"),
    ]
    folder.mkdir(mode=0o700, exist_ok=True)
    with log.open("wb") as said:
        daemon = subprocess.Popen(
            [dockerd, *places, "--group=root", "--storage-driver=vfs", *_QUIET],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    deadline_s = time.monotonic() + _READY_S
    while _fault([docker, "version"]) is not None:
        if daemon.poll() is not None or time.monotonic() > deadline_s:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"]
            raise TestbedError(f"docker: true: a daemon of the host's own did not start: {lines[-1]}")
        time.sleep(_POLL_S)


def _fault(argv: Sequence[str]) -> str | None:
    """Why ``argv`` failed, in its own last words; None if it did not."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.strip().splitlines() if line and not line.startswith("Run 'docker")]
    return (said or ["no output"])[-1]
