"""What all tests share: laws are repeatable; real runs are left out where they cannot be made, with the reason; lanes.

With ``pytest -n``, the tests of one file, which share what is expensive to set up, stay with one worker. A lane is
several files for one worker, one after the other; see :data:`LANES`.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# What runs in a shell's background ignores these, and so would all that tests start, and end by them.
for each in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(each) is signal.SIG_IGN:
        signal.signal(each, signal.default_int_handler if each is signal.SIGINT else signal.SIG_DFL)

# Before torch is imported, here or in programs that tests start: on models as small as these, two threads take longer
# than one, and where others hold a core they wait for each other by spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Not timed: machines differ, and other work may hold their cores. Repeatable: a failure is the same for everybody.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("E2CDL_LAWS", "repeatable"))


LANES = {
    "tests/uml/": "tests/uml",  # a machine has one processor and measures rates: two at once would take it from another
    "tests/local/test_docker_": "this machine's network",  # one daemon, and networks of its own
    "tests/local/test_install": "this machine's network",
}
"""How the ids of tests begin -> their lane."""


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def deterministic_torch() -> Iterator[None]:
    """While in it, torch is deterministic and on one thread, as where hosts train."""
    import torch  # here: most tests need none

    from e2c_dl.training.compute import make_deterministic

    threads = torch.get_num_threads()
    make_deterministic()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def oracles(repository: Path) -> Path:
    """Answers that others' programs have computed, ``shared/oracles`` beside the checkout; skips where it is absent."""
    for folder in repository.parents:
        if (folder / "shared" / "oracles").is_dir():
            return folder / "shared" / "oracles"
    pytest.skip("there is no shared/oracles beside this checkout")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A test leaves its worker's priority as it is: of a lower one, all that follows would wait for other workers."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    result = yield
    assert os.getpriority(os.PRIO_PROCESS, 0) == before, "the test has lowered the priority of its worker"
    return result


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest. Leave out tests marked ``local`` where this machine cannot bring up hosts."""
    items.sort(key=_how_late)
    why = _no_hosts_here()
    if why:
        for item in items:
            if item.get_closest_marker("local"):
                item.add_marker(pytest.mark.skip(reason=why))


def lane(nodeid: str) -> str | None:
    """The lane of a test; None if it has none."""
    return next((name for start, name in LANES.items() if nodeid.startswith(start)), None)


def _how_late(item: pytest.Item) -> int:
    """0 for a lane, 1 for a slow file, 2 for others: at the end, no worker has long to wait for another."""
    if lane(item.nodeid):
        return 0
    file = item.getparent(pytest.Module)
    return 1 if file is not None and file.get_closest_marker("slow") else 2


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Gives each worker whole files, and whole lanes, in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return lane(nodeid) or nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return Lanes(config, log)


def _no_hosts_here() -> str:
    if os.geteuid() != 0:
        return "real runs on this machine need root"
    missing = [program for program in ("ip", "sshd", "unshare", "nsenter") if shutil.which(program) is None]
    return f"not on this machine: {', '.join(missing)}; run make setup" if missing else ""
