"""Building the image of the hosts, on a base from a registry or on one that debootstrap makes here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from e2c_dl.errors import TestbedError
from e2c_dl.resources import dockerfile
from e2c_dl.testbeds.docker import debootstrap
from e2c_dl.testbeds.docker.engine import environment, explained, program
from e2c_dl.testbeds.docker.image import BASE_REPOSITORY, LABEL, Image, find, version_key

Tell = Callable[[str], None]
"""Gets every line of progress."""

PROXIES = ("http_proxy", "https_proxy", "no_proxy")  # every build knows them, and keeps them out of its history
_LAST_LINES = 5


def default_base(os_release: Path = Path("/etc/os-release")) -> str:
    """The image of a registry whose libraries are those of this machine: of its own distribution, if that is known."""
    try:
        suite = debootstrap.this_machines(os_release)
    except TestbedError:
        return "debian:stable-slim"
    return f"debian:{suite.codename}-slim" if suite.distribution == "debian" else f"ubuntu:{suite.codename}"


def build(base: str, tag: str, tell: Tell, *, download: bool = True) -> Image:
    """The image ``tag``, made from the Dockerfile on ``base``. Without ``download``, the base must have everything.

    Raises: TestbedError, with what the build said last.
    """
    network = "host" if download else "none"
    settings = debootstrap.apt_settings() if download else {}
    arguments = [f"--build-arg={name}={settings[name]}" for name in PROXIES if name in settings]
    label = f"--label={LABEL}={version_key()}"
    # The Dockerfile comes on standard input: there is no context, nothing of this machine gets into the image.
    argv = ["build", "--force-rm", "--tag", tag, f"--network={network}", label, f"--build-arg=BASE={base}"]
    argv += [*arguments, "-"]
    with dockerfile().open("rb") as recipe:
        process = subprocess.Popen(
            [program(), *argv],
            stdin=recipe,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # BuildKit tells its progress there
            env=environment(),
            start_new_session=True,  # Ctrl-C is for this process, which then ends it
        )
        last = _followed(process, process.stdout, tell)
    if process.returncode:
        why = explained(argv, "\n".join(last[-1:]) or "no output")
        raise TestbedError(f"{why}; base {base}; without a registry: `sudo e2c-dl image build --from-debootstrap`")
    built = find(tag)
    if built is None:
        raise TestbedError(f"image {tag}: was built, but the daemon does not list it; see `docker image ls`")
    return built


def make_base(suite: debootstrap.Suite, tell: Tell) -> str:
    """A base image of ``suite``, made by debootstrap; its name. Raises: TestbedError."""
    name = f"{BASE_REPOSITORY}:{suite.codename}"
    maker = debootstrap.start(suite, name)
    last = _followed(maker, maker.stderr, tell)
    if maker.returncode:
        raise TestbedError(
            f"debootstrap of {suite.codename} from {suite.mirror or 'its default mirror'} failed: "
            f"{'; '.join(last[-2:]) or 'it said nothing'}; is the mirror reachable?"
        )
    return name


def _followed(process: subprocess.Popen[bytes], output: IO[bytes] | None, tell: Tell) -> list[str]:
    """Tell every line of ``output`` until ``process`` ends, which it does if this is interrupted; the last lines."""
    last: list[str] = []
    try:
        for line in _lines(output):
            tell(line)
            last = [*last, line][-_LAST_LINES:]
    except BaseException:  # Ctrl-C too: nobody would wait for it any more
        process.kill()
        raise
    finally:
        process.wait()
        if output is not None:
            output.close()
    return last


def _lines(output: IO[bytes] | None) -> Iterable[str]:
    for raw in output or ():
        text = raw.decode(errors="replace").strip()
        if text:
            yield text
