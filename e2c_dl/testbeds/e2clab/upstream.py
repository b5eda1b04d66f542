"""Everything of E2Clab 3.7, EnOSlib and Ansible that is changed while a session lasts, and put back when it ends.

E2Clab has no entry point for providers or services, Ansible takes its settings from the environment, and both work
in the current directory. So :func:`patched` changes, of the libraries and of this process::

    os.environ                              Ansible's settings, and what its processes are found by
    the working directory                   EnOSlib writes its playbooks there
    logging                                 handlers and levels: E2Clab adds files to the root logger
    enoslib.config                          forks, and no spinner
    Provider._loaded_providers["G5k"]       the provider that answers for the scenario's ``g5k:`` (or ``iotlab:`` ...)
    e2clab.services.plugins.__path__        where service files are imported from
    get_available_services (three names)    which services exist
    Service.get_loaded_subservices()        which were imported
    forks of this process                   end with it, out of reach of its terminal

Most are private names: :func:`check` says clearly if they have moved. Nothing is written into site-packages. What
importing a library does (its own registrations) is not undone.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.importing import uncollected
from e2c_dl.scenario.environment import G5K
from e2c_dl.testbeds.host_keys import ALIVE

SUPPORTED = "3.7"
SUBSTITUTED = G5K.capitalize()  # as E2Clab spells a provider's class; another name would have to be in its schema
ANSIBLE_SETTINGS = {
    "ANSIBLE_PIPELINING": "True",  # else every module is copied to the host before it is run
    "ANSIBLE_GATHERING": "explicit",  # else every play begins by asking each host for facts that nobody uses
    "ANSIBLE_HOST_KEY_CHECKING": "False",  # hosts for which it matters say so themselves: see ``host_keys``
    "ANSIBLE_SSH_EXTRA_ARGS": shlex.join(ALIVE),  # beside the user's own ANSIBLE_SSH_ARGS
    "ANSIBLE_RETRY_FILES_ENABLED": "False",  # they would be left beside the playbooks
    "ANSIBLE_DEPRECATION_WARNINGS": "False",
    "ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS": "ignore",  # E2Clab names groups edge.trainer.1.1
}
"""Ansible reads some of these when it is first imported, others with each play: set for both."""

LEAST_FORKS = 5  # Ansible's default
_PLUGINS = "e2clab.services.plugins"
_LISTS_SERVICES = ("e2clab.services.utils", "e2clab.services", "e2clab.config")  # each has imported it by name
_PRIVATE = (
    ("e2clab.providers.provider", "Provider"),
    ("e2clab.experiment", "Experiment"),
    ("e2clab.services", "Service"),
    ("enoslib.config", "_config"),
    ("enoslib.infra.enos_g5k.g5k_api_utils", "_api_client"),  # these three, ``reservation`` replaces or reads
    ("enoslib.infra.enos_g5k.provider", "deploy_with_retries"),
    ("enoslib.infra.enos_g5k.provider", "PROD_VLAN_ID"),
    *((module, "get_available_services") for module in _LISTS_SERVICES),
)
_ARGUMENTS = ("E2C_SCENARIO_DIR", "E2C_ARTIFACTS_DIR")  # of its command line alone, which is not run
_LOGGERS = ("", "e2clab", "enoslib")  # the first is the root
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def check() -> str:
    """The installed version of E2Clab.

    Raises: TestbedError if it is absent or its internals are not as known; InputError if the environment changes it.
    """
    _check_environment(os.environ)
    try:
        version = importlib.metadata.version("e2clab")
    except importlib.metadata.PackageNotFoundError as error:
        raise TestbedError("E2Clab is not installed; pip install 'e2c_dl[deploy]'") from error
    if not version.startswith(SUPPORTED + "."):
        raise TestbedError(f"E2Clab {version} is installed, but {SUPPORTED}.x is needed; pip install 'e2c_dl[deploy]'")
    with environment(ANSIBLE_SETTINGS), uncollected():
        for module, name in _PRIVATE:
            if not hasattr(_loaded(module), name):
                raise TestbedError(f"E2Clab {version} has no {module}.{name}; pip install 'e2clab==3.7.0'")
        if not isinstance(getattr(_provider_base(), "_loaded_providers", None), dict):
            raise TestbedError(f"E2Clab {version} keeps its providers elsewhere; pip install 'e2clab==3.7.0'")
        importlib.import_module(f"e2clab.providers.plugins.{SUBSTITUTED}")  # registers the real one, once
    return version


def _check_environment(environ: Mapping[str, str]) -> None:
    """Nothing; E2Clab reads its defaults, names of its files among them, from variables, and tells nobody."""
    found = sorted(name for name in environ if name.startswith("E2C_") and name not in _ARGUMENTS)
    if found:
        raise InputError(
            f"{found[0]} is set: E2Clab takes its defaults from such variables, and no record says so; unset it, and "
            "write into the scenario's files what is meant"
        )


def _loaded(module: str) -> Any:
    """Raises: TestbedError: libraries fail in many ways where they cannot make their directories."""
    try:
        return importlib.import_module(module)
    except Exception as error:
        said = " ".join(str(error).split())
        raise TestbedError(
            f"{module} cannot be imported: {said}; E2Clab and Ansible must be installed whole, and HOME be writable"
        ) from error


@contextmanager
def patched(
    *,
    directory: Path,
    provider: type[Any] | None,
    service_dirs: Sequence[Path],
    hosts: int = LEAST_FORKS,
    environ: Mapping[str, str] | None = None,
    environment_key: str = G5K,
) -> Iterator[None]:
    """While in it: all of the module's table, whatever ends it; for a run of ``hosts`` hosts, in ``directory``.

    ``environ`` goes over ANSIBLE_SETTINGS. Without ``provider`` the real one answers for ``environment_key``, the
    section of the scenario's ``environment:``.

        with patched(directory=work, provider=provider, service_dirs=[ours], environ={"E2CDL_RUN": run_id}):
            Experiment(scenario_dir=work, artifacts_dir=artifacts).infrastructure()
    """
    check()
    with (
        environment({**ANSIBLE_SETTINGS, **(environ or {})}),
        _inside(directory),
        _own_logging(),
        # a fork per host: a launch that blocks in more ranks than forks never meets at rendezvous
        _enoslib_config(ansible_forks=max(hosts, LEAST_FORKS), ansible_stdout="noop"),
        _substituted(provider, environment_key.capitalize()),
        _found_in(service_dirs),
        _forks_end_with_this_process(),
    ):
        yield


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """While in it, ``values`` are in this process's environment; then it is as it was, whoever changed it."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    before = os.open(".", os.O_PATH)  # not its name: it may be moved or removed meanwhile
    try:
        os.chdir(directory)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextmanager
def _own_logging() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    for logger in loggers[1:]:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            for handler in [handler for handler in logger.handlers if handler not in handlers]:
                handler.close()  # else its file stays open for as long as the process lives
            logger.handlers[:] = handlers  # E2Clab also removes files of others from the root
            logger.setLevel(level)


@contextmanager
def _enoslib_config(**values: Any) -> Iterator[None]:
    """Not by ``config_context``: that leaves what was None before, such as the file of dumped results, as it is."""
    config = importlib.import_module("enoslib.config")
    before = config.get_config()
    config.set_config(**values)
    try:
        yield
    finally:
        config._config.clear()
        config._config.update(before)


class _Forks:
    """Whether forks of this process are to end with it. Ansible forks without exec: no environment finds those."""

    active = False

    @classmethod
    @lru_cache(maxsize=1)
    def hook(cls) -> None:
        """Registered once: Python has no way to take such a hook back, so outside of a session it does nothing."""
        libc = ctypes.CDLL(None, use_errno=True)

        def in_child() -> None:
            if cls.active:
                libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))  # the kernel sends it when the parent is gone
                # A terminal's signals are for the controller. Under nohup, ssh that shares a connection would even so
                # end when the terminal closes; and who ends a fork ends all that it has started, by its group.
                os.setsid()

        os.register_at_fork(after_in_child=in_child)


@contextmanager
def _forks_end_with_this_process() -> Iterator[None]:
    _Forks.hook()
    before, _Forks.active = _Forks.active, True
    try:
        yield
    finally:
        _Forks.active = before


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
def _substituted(provider: type[Any] | None, name: str) -> Iterator[None]:
    """``name`` is a provider's class, as E2Clab spells it: the environment's key with a capital."""
    registry = _provider_base()._loaded_providers
    _loaded(f"e2clab.providers.plugins.{name}")  # registers the real one, once
    real = registry[name]
    registry[name] = provider or real  # any other name in there fails every later deployment
    try:
        yield
    finally:
        registry[name] = real


@contextmanager
def _found_in(directories: Sequence[Path]) -> Iterator[None]:
    plugins = importlib.import_module(_PLUGINS)
    listers: list[Any] = [importlib.import_module(name) for name in _LISTS_SERVICES]
    original: Callable[[], list[str]] = listers[0].get_available_services
    ours = [path.stem for folder in directories for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    searched = list(plugins.__path__)
    plugins.__path__ += [str(directory) for directory in directories]
    for module in listers:
        # a service that is not listed silently becomes E2Clab's Default
        module.get_available_services = lambda: list(dict.fromkeys([*original(), *ours]))
    try:
        yield
    finally:
        plugins.__path__[:] = searched
        for module in listers:
            module.get_available_services = original
        for name in set(ours) - set(original()):  # imported again by the next session, from where that finds it
            importlib.import_module("e2clab.services").Service.get_loaded_subservices().pop(name, None)
            if sys.modules.pop(f"{_PLUGINS}.{name}", None) is not None:
                delattr(plugins, name)
