"""The image of the hosts: its name, which carries a version, and what there is of it here.

::

    e2c-dl-host:KEY       made by ``e2c-dl image build``; KEY follows from the Dockerfile, so that an image of an older
                          one is not taken for this one's
    label e2cdl.image     KEY, on images under other names too; an image without it is a user's own
    e2c-dl-base:SUITE     what debootstrap made, where there is no registry
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from e2c_dl.errors import InputError
from e2c_dl.resources import dockerfile
from e2c_dl.testbeds.docker.engine import BUILD_HINT, asked, docker

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
