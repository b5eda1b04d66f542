"""Everything that can be found wrong before anything is started."""

from __future__ import annotations

from e2c_dl.campaign.request import Request
from e2c_dl.errors import InputError
from e2c_dl.scenario.load import load, local_problems
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import upstream
from e2c_dl.testbeds.local_run import preflight


def checked(request: Request) -> Scenario:
    """The scenario of ``request``, if all of the request can be done.

    Raises: InputError (ScenarioError), one line, for the first thing that is wrong.
    """
    scenario = load(request.scenario)
    if not request.artifacts.is_dir():
        raise InputError(f"{request.artifacts}: no such folder of artifacts; make it, it may be empty")
    for problem in local_problems(request.scenario):
        raise problem
    for sentence in preflight(scenario):
        raise InputError(sentence)
    upstream.check()
    return scenario
