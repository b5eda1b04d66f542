"""Places of the files that this package ships beside its code.

::

    layers_services/   E2Clab service classes, one per file   a symbolic link in e2c_dl/data leads to it in a checkout,
    playbooks/         Ansible                                a wheel has the files themselves there
    constraints.txt    exact versions of all it needs
    experiments/       scenarios with their claims
    Dockerfile         of the image whose containers are hosts
    scenario/template/ the commented scenario that ``init`` copies
    tracing/bootstrap/ what Python itself runs first in a script that is traced
"""

from __future__ import annotations

from pathlib import Path

from e2c_dl.errors import InputError

_PACKAGE = Path(__file__).resolve().parent


def layers_services_dir() -> Path:
    """Directory of this project's E2Clab services. Raises: InputError, if the installation lacks it."""
    return _existing("data", "layers_services")


def playbooks_dir() -> Path:
    """Directory of the Ansible playbooks. Raises: InputError, if the installation lacks it."""
    return _existing("data", "playbooks")


def experiments_dir() -> Path:
    """Directory of the experiments. Raises: InputError, if the installation lacks it."""
    return _existing("data", "experiments")


def constraints_file() -> Path:
    """File of the exact versions to install with. Raises: InputError, if the installation lacks it."""
    return _existing("data", "constraints.txt")


def dockerfile() -> Path:
    """The Dockerfile of hosts that are containers. Raises: InputError, if the installation lacks it."""
    return _existing("data", "Dockerfile")


def template_dir() -> Path:
    """Directory of the commented scenario for newcomers. Raises: InputError, if the installation lacks it."""
    return _existing("scenario", "template")


def bootstrap_dir() -> Path:
    """Directory to put on PYTHONPATH, so that a script is traced. Raises: InputError, if the installation lacks it."""
    return _existing("tracing", "bootstrap")


def _existing(*parts: str) -> Path:
    path = _PACKAGE.joinpath(*parts)
    if not path.exists():
        raise InputError(f"{path} is missing: the installation is damaged; install e2c_dl again")
    return path.resolve()
