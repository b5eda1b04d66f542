"""Which versions a run's program and libraries have, as installed; nothing is imported for it."""

from __future__ import annotations

import platform
from importlib import metadata

PACKAGES = ("e2c_dl", "e2clab", "enoslib", "ansible-core", "torch", "numpy", "scikit-learn", "pyarrow")


def versions() -> dict[str, str]:
    """Package -> version, ``absent`` if it is not installed; python as well."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
