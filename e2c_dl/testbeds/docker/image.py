"""Image of the hosts: its name, which carries a version, what there is of it here, and its building.

::

    e2c-dl-host:KEY       made by ``e2c-dl image build``; KEY follows from the Dockerfile, so that an image of an older
                          one is not taken for this one's
    label e2cdl.image     KEY, on images under other names too; an image without it is a user's own
    e2c-dl-base:SUITE     what debootstrap made, where there is no registry

It is built on a base from a registry, or on one that debootstrap makes here.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.resources import dockerfile
from e2c_dl.testbeds.docker import debootstrap
from e2c_dl.testbeds.docker.engine import BUILD_HINT, asked, docker, environment, explained, program
from e2c_dl.testbeds.followed import Tell, followed

REPOSITORY = "e2c-dl-host"
BASE_REPOSITORY = "e2c-dl-base"
LABEL = "e2cdl.image"


@dataclass(frozen=True, kw_only=True)
class Image:
    """One image as the daemon has it."""

    name: str  # repository:tag, or its id if nothing is called so any more
    id: str
    size_bytes: int
    key: str | None  # of the Dockerfile that made it; None: a user's own

    @property
    def stale(self) -> bool:
        """Whether another version of this program's Dockerfile made it."""
        return self.key is not None and self.key != version_key()


def version_key() -> str:
    """12 hexadecimal digits that follow from the Dockerfile. Raises: InputError, if the installation lacks it."""
    return hashlib.sha256(dockerfile().read_bytes()).hexdigest()[:12]  # not the version: most leave the image as it is


def default_name() -> str:
    """The image of a run that names none."""
    return f"{REPOSITORY}:{version_key()}"


def images() -> tuple[Image, ...]:
    """All images of this project that are here, of other versions too. Raises: TestbedError."""
    ids = docker("image", "ls", "--quiet", "--no-trunc", "--filter", f"label={LABEL}").split()
    ids += docker("image", "ls", "--quiet", "--no-trunc", "--filter", f"reference={BASE_REPOSITORY}").split()
    if not ids:
        return ()
    # one may be in both lists
    return tuple(_image(found, None) for found in asked("image", "inspect", *dict.fromkeys(ids)))


def find(name: str) -> Image | None:
    """The image called ``name``; None if there is none. Raises: TestbedError if the daemon does not answer."""
    if not docker("image", "ls", "--quiet", "--no-trunc", name).split():
        return None
    return _image(asked("image", "inspect", name)[0], name)


def problem(name: str) -> str | None:
    """Why no host can be made of the image ``name``, with the remedy; None if one can. Raises: TestbedError."""
    found = find(name)
    if found is not None:
        return f"image {name}: made by another version of this program; {BUILD_HINT}" if found.stale else None
    others = [image.name for image in images() if image.stale]
    if name == default_name() and others:
        return f"image {name}: not here, only that of another version ({others[0]}); {BUILD_HINT}"
    return f"image {name}: not here; {BUILD_HINT if name == default_name() else f'`docker pull {name}`'}"


def remove() -> tuple[str, ...]:
    """Remove all images of this project; their names. Raises: TestbedError, such as if a container uses one."""
    found = images()
    for image in sorted(found, key=lambda image: image.key is None):  # what is built on a base goes before it
        docker("image", "rm", "--force", image.id)  # by id: --force, as an image may have several names
    return tuple(image.name for image in found)


def checked_name(name: str) -> str:
    """``name``, if docker takes it for an image's and not for an option. Raises: InputError."""
    if not name or name.startswith("-") or any(sign.isspace() for sign in name):
        raise InputError(f"image {name!r}: not an image's name; write it as in `docker image ls`: name:tag")
    return name


def _image(found: dict[str, object], name: str | None) -> Image:
    config, tags = found.get("Config"), found.get("RepoTags")
    labels = (config.get("Labels") if isinstance(config, dict) else None) or {}  # docker says null where there are none
    shown = name or (str(tags[0]) if isinstance(tags, list) and tags else str(found["Id"]))
    return Image(name=shown, id=str(found["Id"]), size_bytes=int(str(found.get("Size", 0))), key=labels.get(LABEL))


PROXIES = ("http_proxy", "https_proxy", "no_proxy")  # every build knows them, and keeps them out of its history


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
        last = followed(process, process.stdout, tell)
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
    last = followed(maker, maker.stderr, tell)
    if maker.returncode:
        raise TestbedError(
            f"debootstrap of {suite.codename} from {suite.mirror or 'its default mirror'} failed: "
            f"{'; '.join(last[-2:]) or 'it said nothing'}; is the mirror reachable?"
        )
    return name
