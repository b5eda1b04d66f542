"""Requests of a run as a user makes them, checked before anything is started, and the console that a run tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from e2c_dl.archive.records import Doing, Progress
from e2c_dl.drivers.live.stored import check_profile
from e2c_dl.errors import FidelityError, InputError
from e2c_dl.scenario.configurations import check_app_conf
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.environment import environment_key
from e2c_dl.scenario.folder.copies import check_seed
from e2c_dl.scenario.load import LAYERS_SERVICES, load, local_problems
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import catalogue
from e2c_dl.testbeds.base import Testbed
from e2c_dl.testbeds.e2clab import upstream
from e2c_dl.testbeds.registry import STATE_VARIABLE, state_base

_NOT_PLAIN = ("$", "{{", "{%", "{#")  # of the environment, and of Jinja; all else arrives as it is, line breaks too


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run, as asked for on the command line. Paths are absolute."""

    scenario: Path
    artifacts: Path | None  # None: an empty folder of the run's own, for a workflow that takes nothing from it
    testbed: str  # its name: local
    options: Mapping[str, str] = field(default_factory=dict)  # what was said about the testbed: inventory, image
    archive: Path | None = None  # None: runs/SCENARIO-TIME-RUN in the working directory
    strict: bool = False  # a link that measures differently than requested is an error
    seed: int | None = None  # places the injected departures anew
    healthy: bool = False  # leaves the injected departures out
    only_probe: bool = False  # measures what training would use, and trains nothing
    keep: bool = False  # leaves the hosts up when the run has ended
    app_conf: str | None = None  # E2Clab's: which configuration of the workflow is launched
    current_repeat: int = 1
    duration_s: float = 0.0  # between launch and finalize
    image: str | None = None  # of the services' containers, in place of the scenario's: a name, or docker save's file
    command: tuple[str, ...] = ()  # what was typed; kept in the archive


class Console(Protocol):
    """Who listens to a run. Called from the main thread and, for ``doing`` and ``progress``, from one other too."""

    def begun(self, run_id: str, archive: Path) -> None:
        """The run is there: its id, and where it is kept."""

    def step(self, name: str, what: str) -> None:
        """A step begins; ``what`` is a sentence for people."""

    def done(self, name: str, seconds: float) -> None: ...

    def failed(self, name: str, why: str) -> None: ...

    def say(self, line: str) -> None: ...

    def doing(self, doing: Doing) -> None:
        """A part of the step is under way; called again as it gets on."""

    def progress(self, progress: Progress) -> None: ...


def checked(request: Request) -> tuple[Scenario, Testbed]:
    """The scenario of ``request`` and the testbed it is to run on, if all of the request can be done.

    Raises: InputError (ScenarioError), one line, for the first thing that is wrong; FidelityError, if the request is
    strict and the testbed cannot emulate all that the scenario asks for.
    """
    testbed = catalogue.testbed(request.testbed, request.options)
    scenario = load(request.scenario)
    check_seed(request.scenario, request.seed)
    archive = request.archive or Path.cwd() / scenario.name  # of both the default is made
    named = {"--archive": archive, "artifacts": request.artifacts, STATE_VARIABLE: state_base()}
    for what, place in named.items():
        if place is not None:
            _check_plain(what, place)
    if request.artifacts is not None and not request.artifacts.is_dir():
        raise InputError(f"{request.artifacts}: no such folder of artifacts; make it, it may be empty")
    for problem in local_problems(scenario, elsewhere=catalogue.is_elsewhere(request.testbed)):
        raise problem
    check_app_conf(request.scenario, request.app_conf)
    environment_key(read(request.scenario / LAYERS_SERVICES))
    if scenario.shapes_only:
        check_profile(scenario)
    for sentence in testbed.preflight(scenario):  # the first: the next may follow from it
        raise InputError(sentence)
    for sentence in testbed.limitations(scenario) if request.strict else ():
        raise FidelityError(f"--strict: {sentence}")
    upstream.check()  # last: importing E2Clab takes two seconds
    return scenario, testbed


def _check_plain(what: str, place: Path) -> None:
    """Does nothing. Raises: InputError for a path that would be another one by the time that Ansible uses it."""
    found = [sign for sign in _NOT_PLAIN if sign in str(place)]
    if found:
        raise InputError(
            f"{what}: {str(place)!r} has {' and '.join(found)} in it, which Ansible replaces; name a path without, "
            "or rename the folder"
        )
