"""Everything that can be found wrong before anything is started."""

from __future__ import annotations

from e2c_dl.campaign.request import Request
from e2c_dl.errors import FidelityError, InputError
from e2c_dl.scenario.load import load, local_problems
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds import catalogue
from e2c_dl.testbeds.base import Testbed
from e2c_dl.testbeds.e2clab import upstream


def checked(request: Request) -> tuple[Scenario, Testbed]:
    """The scenario of ``request`` and the testbed it is to run on, if all of the request can be done.

    Raises: InputError (ScenarioError), one line, for the first thing that is wrong; FidelityError, if the request is
    strict and the testbed cannot emulate all that the scenario asks for.
    """
    testbed = catalogue.testbed(request.testbed, request.options)
    scenario = load(request.scenario)
    if not request.artifacts.is_dir():
        raise InputError(f"{request.artifacts}: no such folder of artifacts; make it, it may be empty")
    for problem in local_problems(request.scenario):
        raise problem
    for sentence in testbed.preflight(scenario):
        raise InputError(sentence)
    for sentence in testbed.limitations(scenario) if request.strict else ():
        raise FidelityError(f"--strict: {sentence}")
    upstream.check()
    return scenario, testbed
