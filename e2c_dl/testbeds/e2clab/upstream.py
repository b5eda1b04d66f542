"""The seam to E2Clab 3.7 and EnOSlib: run an unmodified scenario with our provider and our services.

E2Clab has no entry point for providers or services, so two registries of its own are extended while a run lasts, and
put back afterwards::

    Provider._loaded_providers["G5k"]       the provider that answers for the scenario's ``g5k:``
    e2clab.services.plugins.__path__        where service files are imported from
    get_available_services (three names)    which services exist

These are private names: :func:`check` says clearly if they have moved. Nothing is written into site-packages.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from e2c_dl.errors import TestbedError

SUPPORTED = "3.7"
SUBSTITUTED = "G5k"
ANSIBLE_SETTINGS = {
    "ANSIBLE_PIPELINING": "True",
    "ANSIBLE_GATHERING": "explicit",
    "ANSIBLE_HOST_KEY_CHECKING": "False",
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
    "ANSIBLE_DEPRECATION_WARNINGS": "False",
    "ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS": "ignore",  # E2Clab names groups edge.trainer.1.1
}
"""Ansible reads some of these when it is first imported, so they are set before E2Clab is."""

_LISTS_SERVICES = ("e2clab.services.utils", "e2clab.services", "e2clab.config")


def check() -> str:
    """The installed version of E2Clab. Raises: TestbedError if it is absent or its internals are not as known."""
    try:
        version = importlib.metadata.version("e2clab")
    except importlib.metadata.PackageNotFoundError as error:
        raise TestbedError("E2Clab is not installed; pip install 'e2c_dl[deploy]'") from error
    if not version.startswith(SUPPORTED + "."):
        raise TestbedError(f"E2Clab {version} is installed, but {SUPPORTED}.x is needed; pip install 'e2c_dl[deploy]'")
    os.environ.update(ANSIBLE_SETTINGS)
    needed = [("e2clab.providers.provider", "Provider"), ("e2clab.experiment", "Experiment")]
    needed += [(module, "get_available_services") for module in _LISTS_SERVICES]
    for module, name in needed:
        if not hasattr(importlib.import_module(module), name):
            raise TestbedError(f"E2Clab {version} has no {module}.{name}; pip install 'e2clab==3.7.0'")
    if not isinstance(getattr(_provider_base(), "_loaded_providers", None), dict):
        raise TestbedError(f"E2Clab {version} keeps its providers elsewhere; pip install 'e2clab==3.7.0'")
    return version


@contextmanager
def extended(provider: type[Any] | None, service_dirs: Sequence[Path]) -> Iterator[None]:
    """While in it, E2Clab finds services in ``service_dirs`` and, if given, ``provider`` answers for ``g5k:``."""
    check()
    with ExitStack() as stack:
        if provider is not None:
            stack.enter_context(_substituted(provider))
        stack.enter_context(_found_in(service_dirs))
        yield


def make_provider(bring_up: Callable[[], Any], release: Callable[[], None]) -> type[Any]:
    """An E2Clab Provider class whose hosts are what ``bring_up() -> (Roles, Networks)`` returns.

    Leaves E2Clab's registry of providers as it was: a class left in it under any other name than an environment's
    would make every later deployment fail.
    """
    base = _provider_base()

    class Substitute(base):  # type: ignore[misc, valid-type]
        """Answers for Grid'5000 with hosts from elsewhere."""

        def init(self) -> Any:
            self.roles, self.networks = bring_up()
            return self.roles, self.networks

        def destroy(self) -> None:
            release()

        def get_jobs(self) -> list[Any]:
            return []

        def __reduce__(self) -> tuple[type[object], tuple[()]]:
            return object, ()  # E2Clab's command line pickles its experiment; these hosts do not outlive the process

    base._loaded_providers.pop(Substitute.__name__, None)
    return Substitute


def _provider_base() -> type[Any]:
    base: type[Any] = importlib.import_module("e2clab.providers.provider").Provider
    return base


@contextmanager
def _substituted(provider: type[Any]) -> Iterator[None]:
    importlib.import_module(f"e2clab.providers.plugins.{SUBSTITUTED}")  # registers the real one, once
    registry = _provider_base()._loaded_providers
    real = registry[SUBSTITUTED]
    registry[SUBSTITUTED] = provider
    try:
        yield
    finally:
        registry[SUBSTITUTED] = real


@contextmanager
def _found_in(directories: Sequence[Path]) -> Iterator[None]:
    plugins = importlib.import_module("e2clab.services.plugins")
    modules = [importlib.import_module(name) for name in _LISTS_SERVICES]
    original: Callable[[], list[str]] = modules[0].get_available_services
    ours = [
        path.stem for directory in directories for path in sorted(directory.glob("*.py")) if path.stem != "__init__"
    ]
    places = [str(directory) for directory in directories]

    def available() -> list[str]:
        return [*original(), *(name for name in ours if name not in original())]

    plugins.__path__.extend(places)
    _set_all(modules, available)
    try:
        yield
    finally:
        _set_all(modules, original)
        for place in places:
            plugins.__path__.remove(place)


def _set_all(modules: Sequence[ModuleType], function: Callable[[], list[str]]) -> None:
    for module in modules:
        module.get_available_services = function  # type: ignore[attr-defined]
