"""One E2Clab Experiment, driven act by act, so that every failure is seen and said.

``e2clab deploy`` exits 0 when the network or the workflow failed. Driven directly its acts raise; this module turns
what they raise into one line with the cause, and keeps E2Clab's own log beside the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from e2c_dl.archive.records import Doing
from e2c_dl.errors import E2cDlError, TestbedError, TrainingError
from e2c_dl.scenario.environment import G5K
from e2c_dl.testbeds.e2clab import upstream
from e2c_dl.testbeds.e2clab.telling import Tasks, one_line, told
from e2c_dl.testbeds.own_programs import IMAGE_VARIABLE

VALIDATE = "workflow-validate.out"
LAUNCH_VALIDATE = "workflow-launch.out"
"""The same of a configuration: prepare's own stands beside it."""

_LOGGER = logging.getLogger("e2clab.session")  # below E2Clab's own, and so in its log


class Session:
    """E2Clab's three acts on one scenario folder, with our services and, if given, our provider.

    A context manager: while in it, this process and E2Clab are as ``upstream.patched`` says. ``scenario_dir`` must be
    a copy of the run's own: E2Clab writes into it; what the workflow fetches goes below ``fetch_dir``. ``tell`` hears
    of every Ansible task, host by host.
    """

    def __init__(
        self,
        *,
        scenario_dir: Path,
        artifacts_dir: Path,
        fetch_dir: Path,
        state_dir: Path,
        hosts: int,
        provider: type[Any] | None,
        service_dirs: Sequence[Path],
        tell: Callable[[Doing], None] = lambda _: None,
        app_conf: str | None = None,
        current_repeat: int = 1,
        image: str | None = None,
        environment_key: str = G5K,
    ) -> None:
        self._app_conf, self._current_repeat = app_conf, current_repeat
        self._scenario_dir, self._artifacts_dir, self._fetch_dir = scenario_dir, artifacts_dir, fetch_dir
        self._log_dir = fetch_dir
        self._patched = upstream.patched(
            directory=scenario_dir,
            provider=provider,
            service_dirs=service_dirs,
            hosts=hosts,
            environment_key=environment_key,
            environ=ansible_in(state_dir) | ({IMAGE_VARIABLE: image} if image else {}),
        )
        self._tasks = Tasks(tell)
        self._stack = ExitStack()
        self._experiment: Any = None

    def __enter__(self) -> Session:
        with ExitStack() as stack:  # if E2Clab refuses the scenario, everything is put back all the same
            stack.enter_context(self._patched)
            stack.enter_context(told(self._tasks))
            from e2clab.experiment import Experiment

            (self._scenario_dir / ".e2c_state").mkdir(exist_ok=True)  # its command line makes it; Experiment expects it
            self._experiment = Experiment(
                scenario_dir=self._scenario_dir, artifacts_dir=self._artifacts_dir, repeat=self._current_repeat
            )
            self._part_logs()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def output_dir(self) -> Path:
        """Where E2Clab writes, and the workflow's finalize where no configuration is named."""
        return Path(self._experiment.experiment_dir)

    @property
    def finalize_dir(self) -> Path:
        """Where the workflow's finalize writes."""
        return self.output_dir / self._app_conf if self._app_conf else self.output_dir

    @property
    def log_dir(self) -> Path:
        """Where E2Clab's logs are, which hold whatever secrets the scenario has."""
        return self._log_dir

    def _part_logs(self) -> None:
        """Have what the workflow fetches in ``fetch_dir``; E2Clab's logs, and what it dumps, stay in its scenario."""
        self._log_dir = Path(self._experiment.experiment_dir)
        self._experiment.experiment_dir = self._fetch_dir / self._log_dir.name
        for folder, log in {self.finalize_dir: LAUNCH_VALIDATE, self.output_dir: VALIDATE}.items():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / VALIDATE).symlink_to(self._log_dir / log)  # what it writes there holds the tasks' results

    def infrastructure(self) -> None:
        """Reserve hosts and deploy services. Raises: TestbedError."""
        self._act("deploying the services", TestbedError, self._experiment.infrastructure)

    def workflow(self, task: str, failed: Callable[[str, str], None] = lambda *_: None) -> None:
        """Run ``prepare``, ``launch`` or ``finalize`` of workflow.yaml. Raises: TrainingError.

        ``failed`` hears, while others go on, of each host on which a task fails: its name, and why.
        """
        from e2clab.constants import WorkflowTasks

        step = WorkflowTasks(task)
        app_conf = None if step is WorkflowTasks.PREPARE else self._app_conf  # as E2Clab: it prepares for all of them
        self._tasks.failed = failed
        try:
            self._act(f"the workflow's {task}", TrainingError, lambda: self._experiment.application(step, app_conf))
        finally:
            self._tasks.failed = lambda *_: None

    def _act(self, what: str, error_type: type[E2cDlError], act: Any) -> None:
        def said(cause: BaseException) -> E2cDlError:
            _LOGGER.error("%s failed", what, exc_info=cause)  # E2Clab keeps no traceback
            return error_type(f"{what} failed: {one_line(cause)}; see e2clab.log in the archive's logs")

        with causes(said):
            act()


def ansible_in(folder: Path) -> dict[str, str]:
    """Settings by which what Ansible leaves on this machine lies in ``folder``, not in the user's home or /tmp.

    A module that runs here, as ``synchronize`` does, unpacks itself in TMPDIR; killed, it leaves that there.
    """
    place = folder / "ansible"
    place.mkdir(mode=0o700, exist_ok=True)
    return {
        "ANSIBLE_SSH_CONTROL_PATH_DIR": f"{folder}/ssh", "ANSIBLE_LOCAL_TEMP": str(place), "TMPDIR": str(place),
    }  # fmt: skip


@contextmanager
def causes(saying: Callable[[BaseException], E2cDlError]) -> Iterator[None]:
    """While in it, what caused E2Clab's errors is raised: an error of ours as it is, of others what ``saying`` says."""
    try:
        yield
    except E2cDlError:
        raise
    except Exception as error:
        cause = _root_cause(error)
        raise (cause if isinstance(cause, E2cDlError) else saying(cause)) from error


def _root_cause(error: BaseException) -> BaseException:
    """What E2Clab's own exceptions hide: it raises new ones while handling, without ``from``."""
    while True:
        inner = error.__cause__ or error.__context__
        wrapped = next((argument for argument in error.args if isinstance(argument, BaseException)), None)
        deeper = wrapped or inner
        if deeper is None or not type(error).__module__.startswith("e2clab"):  # what others chain is theirs to say
            return error
        error = deeper
