"""State that the steps of any run share: scenario, archive, what went wrong so far; and the conclusion of every run."""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.redact import redact
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import traced
from e2c_dl.campaign.interrupts import Interrupts
from e2c_dl.campaign.request import Console
from e2c_dl.campaign.told import Outlived
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.errors import AnalysisError, ArchiveError, E2cDlError, InputError, Interrupted
from e2c_dl.redaction import Redactor
from e2c_dl.report.page.html import write_report
from e2c_dl.scenario.model import SHAPES, Scenario
from e2c_dl.tracing import left
from e2c_dl.worlds.trained import model_facts

T = TypeVar("T")

ENDED = "ended_with"
"""Among the facts of run.json: exit_code, and error, the line that the command line ended with."""

PACKAGES = ("e2c_dl", "e2clab", "enoslib", "ansible-core", "torch", "numpy", "scikit-learn", "pyarrow")

NOT_TRAINED = (f"mathematics: {SHAPES}: nothing was trained, so that there is neither loss nor accuracy",)
"""What is said of a run whose hosts computed nothing."""


@dataclass(kw_only=True)
class Underway:
    """One run. Grows from step to step; only its steps change it."""

    console: Console  # whatever fails in it, the run goes on
    transcript: Console | None = None  # a second one, which keeps what it is told in the archive until that is sealed
    interrupts: Interrupts = field(default_factory=Interrupts)  # the walk's, once it has begun
    redactor: Redactor = field(default_factory=Redactor)  # of what must stand in no archive and no log
    analysed: bool = True  # whether there is training to report of
    scenario: Scenario | None = None
    archive: Archive | None = None
    failures: list[tuple[str, E2cDlError]] = field(default_factory=list)  # (step, error), oldest first

    def __post_init__(self) -> None:
        self.console = self._outlived = Outlived(
            *([self.transcript] if self.transcript else []), self.console
        )  # kept before it is told

    @property
    def verdict(self) -> E2cDlError | None:
        """Why the run failed, as its user is told; None if it did not."""
        return self.failures[0][1] if self.failures else None

    @property
    def waited_for(self) -> tuple[str, ...]:
        """The hosts that were waited for when that was last told."""
        return self._outlived.waiting

    @property
    def the_scenario(self) -> Scenario:
        return there(self.scenario)

    @property
    def the_archive(self) -> Archive:
        return there(self.archive)

    @property
    def archive_path(self) -> Path:
        return self.the_archive.path

    def keep_secret(self, redactor: Redactor) -> None:
        """From now on what ``redactor`` knows is neither told nor recorded; call it when there is an archive."""
        self.redactor = self.the_archive.redactor = self._outlived.redactor = redactor

    def note(self, step: str, seconds: float, error: E2cDlError | None, *, last: bool) -> None:
        """Record how ``step`` ended, as far as there is an archive to record it in; the ``last`` has sealed it."""
        if error is not None:
            error.args = tuple(self.redactor.value(error.args) or ())  # type: ignore[arg-type] # a list for a tuple
            self.failures.append((step, error))
        if self.archive is not None and not last:
            outcome = "done" if error is None else "interrupted" if isinstance(error, Interrupted) else "failed"
            self.archive.step(step, round(seconds, 3), outcome)

    def defect(self, step: str, failed: BaseException) -> E2cDlError:
        """What to tell of ``failed``, which nobody foresaw; its traceback is kept."""
        self._keep(self.redactor.text("".join(traceback.format_exception(failed))))
        return E2cDlError(f"{step}: unexpected {type(failed).__name__}: {failed}; please report logs/defect.txt")

    def _keep(self, text: str) -> None:
        """Keep ``text`` where it is looked for; if it cannot be written there, on standard error."""
        try:
            logs = self.archive_path / layout.LOGS
            logs.mkdir(exist_ok=True)
            (logs / "defect.txt").write_text(text)
        except (E2cDlError, OSError):  # no archive yet, or none any more
            print(text, file=sys.stderr)

    def conclude(
        self, happened: Iterable[str], secrets: Sequence[bytes] = (), *, outcome: Outcome | None = None
    ) -> None:
        """Say how the run ended, and what ``happened``, analyse it, write the report, and seal the archive.

        ``outcome``: by default what follows from the failures. A run that cannot be reported is sealed all the same.
        """
        archive = self.the_archive
        with self.interrupts.put_off():  # else a late Ctrl-C leaves an archive that says that its run goes on
            for sentence in redact(archive.path, self.redactor):
                archive.limited(sentence)
            for sentence in [*happened, *self._ranks(), *self._outlived.failures]:
                archive.happened(sentence)
            archive.end(outcome or self._outcome(), archive.run.ended or now().isoformat(timespec="seconds"))
        failure = self._reported()
        if ENDED not in archive.run.facts:  # for who comes when this process is gone
            verdict = self.verdict
            ended = {"exit_code": 0 if verdict is None else verdict.exit_code, "error": str(verdict or "")}
            archive.record(facts={ENDED: ended})
        self._outlived.leave(self.transcript)
        try:
            archive.seal(secrets)  # last: whatever is written after its checksums counts as altered
        except ArchiveError as error:
            raise ArchiveError(f"{error}; then `e2c-dl verify --seal {archive.path}`") from error
        if failure is not None:
            raise failure

    def _ranks(self) -> list[str]:
        """What happened to traced ranks of a program of the user's, which may have left anything."""
        try:
            traces = left.told(self.archive_path)
            return traced.noted(self.the_archive, traces) if traces else []
        except ArchiveError as error:
            return [str(error)]

    def _outcome(self) -> Outcome:
        if not self.failures:
            return Outcome.FINISHED
        # the first decides: later failures often follow from it
        return Outcome.INTERRUPTED if isinstance(self.failures[0][1], Interrupted) else Outcome.FAILED

    def _reported(self) -> Exception | None:
        """Write the report, or say why there is none; what went wrong, unless there was nothing to analyse."""
        if not self.analysed:
            return None
        try:
            found = open_archive(self.archive_path)
            write_report(found, diagnose(found))
        except Exception as failed:  # noqa: BLE001 - Ctrl-C, a full disk, a defect: the archive is sealed without it
            # a traceback is kept now: what is written after the seal counts as altered
            error = failed if isinstance(failed, (E2cDlError, OSError)) else self.defect("report", failed)
            for name in (layout.REPORT_JSON, layout.REPORT_HTML):  # of an earlier try: it would be taken for this one's
                (self.archive_path / name).unlink(missing_ok=True)
            why = str(error) if isinstance(error, AnalysisError) else f"there is no report: {error}"
            self.console.say(why)
            self.the_archive.happened(why)
            return None if isinstance(error, AnalysisError) else error
        return None


def asked_for(scenario: Scenario) -> dict[str, Any]:
    """What run.json holds of ``scenario`` wherever it is run: its seeds, and what was injected."""
    injected = scenario.injected
    return {
        "scenario": scenario.name,
        "seeds": {"training": scenario.seed, "injected": injected.seed},
        "injected": {
            "compute": dict(injected.compute),
            "links": {f"{src} -> {dst}": factor for (src, dst), factor in injected.links.items()},
            "faults": [vars(fault) for fault in injected.faults],
        },
    }


def trained(scenario: Scenario) -> dict[str, Any]:
    """What is known of what is trained."""
    if scenario.trained is None:
        return {"program": scenario.program}
    training = scenario.trained
    return {
        "training": training.recorded(), "model": model_facts(training), "mathematics": training.mathematics,
    }  # fmt: skip


def default_archive(scenario: Scenario, run_id: str, started: datetime) -> Path:
    """Where a run is kept if nobody says otherwise. Raises: InputError."""
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise InputError("the working directory was removed; cd to one that exists, or name an --archive") from error
    return here / "runs" / f"{scenario.name}-{started:%Y%m%d-%H%M%S}-{run_id}"


def now() -> datetime:
    """In local time, with its offset."""
    return datetime.now(timezone.utc).astimezone()


def there(value: T | None) -> T:
    """``value``. Raises: InputError if an earlier step has not made it."""
    if value is None:
        raise InputError("a step of the run was begun before the one that it needs")
    return value


def versions() -> dict[str, str]:
    """Package -> version as installed, ``absent`` if it is not; python as well. Nothing is imported for it."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)  # metadata alone: importing torch or E2Clab takes seconds
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
