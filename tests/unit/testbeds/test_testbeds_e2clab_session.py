"""A session with E2Clab: whatever ends it, this process and the libraries are as they were."""

import importlib
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_scenario import writer

from e2c_dl import resources
from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.e2clab import experiment, telling, upstream
from e2c_dl.testbeds.e2clab.telling import one_line

_LISTERS = ("e2clab.services.utils", "e2clab.services", "e2clab.config")


def state() -> dict[str, object]:
    """Everything that a session changes."""
    loggers = {name: logging.getLogger(name) for name in ("", "e2clab", "enoslib")}
    provider = importlib.import_module("e2clab.providers.provider").Provider
    service = importlib.import_module("e2clab.services").Service
    plugins = importlib.import_module("e2clab.services.plugins")
    return {
        "environment": dict(os.environ),
        "directory": Path.cwd(),
        "logging": {name: (list(each.handlers), each.level) for name, each in loggers.items()},
        "enoslib": importlib.import_module("enoslib.config").get_config(),
        "providers": dict(provider._loaded_providers),
        "services": dict(service.get_loaded_subservices()),
        "service folders": list(plugins.__path__),
        "service modules": sorted(name for name in sys.modules if name.startswith(f"{plugins.__name__}.")),
        "service names": [name for name in dir(plugins) if not name.startswith("__")],
        "listers": [importlib.import_module(name).get_available_services for name in _LISTERS],
        "forks": upstream._Forks.active,
    }


def before_it() -> dict[str, object]:
    """The state before a session; to be called within a test, as pytest's own log handlers differ around it."""
    upstream.check()
    # E2Clab loads it for itself when it first prepares a service; importing is not undone.
    importlib.import_module("e2clab.services.utils").load_services(["Default"])
    return state()


@pytest.fixture
def session(tmp_path: Path) -> experiment.Session:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "s").mkdir()
    source = writer(tmp_path / "s")()
    return experiment.Session(
        scenario_dir=source,
        artifacts_dir=tmp_path / "artifacts",
        fetch_dir=tmp_path / "fetched",
        state_dir=tmp_path,
        hosts=9,
        provider=upstream.make_provider(lambda: None, lambda: None),
        service_dirs=[resources.layers_services_dir()],
    )


def _load_our_service() -> None:
    importlib.import_module("e2clab.services.utils").load_services(["Trainer"])


def test_a_session_that_succeeds_puts_all_back(session, tmp_path):
    before = before_it()
    with session:
        _load_our_service()
        os.environ["ANSIBLE_LEFT_BY_A_PLAY"] = "1"
        inside = state()
        assert (session.log_dir / "e2clab.log").is_file() and session.log_dir.is_relative_to(tmp_path / "s")
        assert session.output_dir.is_relative_to(tmp_path / "fetched")
        assert "Trainer" in importlib.import_module("e2clab.config").get_available_services()
        assert inside["enoslib"]["ansible_forks"] == 9
        assert inside["environment"]["ANSIBLE_SSH_CONTROL_PATH_DIR"] == str(tmp_path / "ssh")
        unpacked = subprocess.check_output(
            [sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"], text=True
        )
        assert Path(unpacked).is_relative_to(tmp_path)  # as Ansible's modules that run here do: none is left in /tmp
        assert [key for key in before if inside[key] == before[key]] == []
    assert state() == before


def test_a_session_that_fails_puts_all_back(session):
    before = before_it()
    with pytest.raises(TestbedError), session:
        _load_our_service()
        session.infrastructure()  # the provider brings up nothing, which E2Clab cannot unpack
    assert state() == before


def test_a_session_that_e2clab_refuses_puts_all_back(session, tmp_path, monkeypatch):
    before = before_it()
    monkeypatch.setattr("e2clab.experiment.Experiment", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError), session:
        raise AssertionError("not entered")
    assert state() == before


def test_the_next_session_finds_our_service_again(tmp_path):
    before = before_it()
    for _ in range(2):
        with upstream.patched(directory=tmp_path, provider=None, service_dirs=[resources.layers_services_dir()]):
            _load_our_service()
    assert state() == before


@pytest.mark.parametrize("key", ["g5k", "iotlab", "chameleoncloud", "chameleonedge"])
def test_hosts_from_elsewhere_stand_in_for_any_environment(tmp_path, key):
    provider, base = upstream.make_provider(lambda: None, lambda: None), upstream._provider_base()
    importlib.import_module(f"e2clab.providers.plugins.{key.capitalize()}")  # importing is not undone
    before = before_it()
    with upstream.patched(directory=tmp_path, provider=provider, service_dirs=[], environment_key=key):
        found = importlib.import_module("e2clab.providers").load_providers(
            [importlib.import_module("e2clab.constants").Environment(key)]
        )
        assert list(found.values()) == [provider]
        assert base._loaded_providers[key.capitalize()] is provider
    assert state() == before


def test_what_e2clab_cannot_import_is_told(tmp_path):
    with (
        pytest.raises(TestbedError, match=r"Scalewayinstances cannot be imported: .*pip install e2clab\[scaleway\]"),
        upstream.patched(directory=tmp_path, provider=None, service_dirs=[], environment_key="scalewayinstances"),
    ):
        raise AssertionError("not entered")


def test_only_forks_inside_a_session_end_with_this_process(tmp_path):
    """PR_GET_PDEATHSIG in a child: the signal that the kernel sends it when its parent has ended."""
    before_it()
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)

    def signal_of_a_fork() -> int:
        pid = os.fork()
        if pid == 0:
            number = ctypes.c_int()
            libc.prctl(2, ctypes.byref(number))
            os._exit(number.value)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    with upstream.patched(directory=tmp_path, provider=None, service_dirs=[]):
        assert signal_of_a_fork() == 9
    assert signal_of_a_fork() == 0


class Result:
    def __init__(self, host: str, **payload: object) -> None:
        self.host, self.payload = host, payload


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"msg": "no such file"}, "a: no such file"),
        ({"stderr": "one\ntwo", "msg": "non-zero return code"}, "a: two"),
        (
            {"stderr": "gzip: No space left on device\ntar: Cannot write\ntar: Error is not recoverable: exiting now"},
            "a: gzip: No space left on device",
        ),
        (
            {
                "msg": "MODULE FAILURE\nSee stdout/stderr for the exact error",
                "module_stdout": "OSError: [Errno 28] No space left on device",
            },
            "a: OSError: [Errno 28] No space left on device",
        ),
        ({"msg": "See stdout/stderr for the exact error"}, "a: See stdout/stderr for the exact error"),
        ({"rc": 1}, "a: {'rc': 1}"),
    ],
)
def test_of_a_failed_task_the_line_that_says_why_is_told(payload, said) -> None:
    assert one_line(RuntimeError([Result("a", **payload)])) == said


def test_who_fails_is_heard_of_while_others_go_on() -> None:
    heard: list[tuple[str, str]] = []
    tasks = telling.Tasks(lambda _: None)
    tasks.failed = lambda host, why: heard.append((host, why))

    def result(host: str, **payload: object) -> Any:
        return SimpleNamespace(_host=SimpleNamespace(get_name=lambda: host), _result=payload)

    with telling.told(tasks):
        callback: Any = importlib.import_module(telling.SILENT[0]).NoopCallback()
    callback.v2_runner_on_failed(result("edge-1", msg="it is passed over"), ignore_errors=True)
    callback.v2_runner_on_ok(result("edge-2"))
    callback.v2_runner_on_failed(result("fog-1", stderr="failed: no room", msg="non-zero return code"))
    callback.v2_runner_on_unreachable(result("cloud-1", msg="no route to host"))
    assert heard == [("fog-1", "failed: no room"), ("cloud-1", "no route to host")]
