"""How slow hosts were by design: what diagnosis holds their gradients against. What was injected stays out of it.

::

    factor or schedule of the scenario   |--1--|------2------|
    the device's heat, as it was       |-cool-|---hot x 3---|cool|     from the log of changes: heat follows the load
                                       |--1--|2|-----6------|-2--|
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.scenario.thermal import Thermal
from e2c_dl.trace.changes import Change, ChangeInForce


def compute_factors(scenario: Scenario, changes: Sequence[ChangeInForce], seconds: float) -> Mapping[str, Schedule]:
    """Host that trains -> times slower by design in ``seconds`` of training, heat as ``changes`` tell it included."""
    schedules, constants = scenario.schedules, scenario.compute
    found = {}
    for host in scenario.topology.ranks:
        schedule = schedules.compute.get(host.name, Schedule.constant(constants.factor(host.name)))
        device = schedules.thermal.get(host.name)
        found[host.name] = (
            schedule if device is None else _heated(schedule, device, _switches(changes, host.name), seconds)
        )
    return found


def _switches(changes: Sequence[ChangeInForce], host: str) -> list[tuple[float, bool]]:
    """(when, whether it is throttled from then on), in order."""
    own = (each for each in changes if each.host == host and each.what in (Change.THROTTLE, Change.RECOVER))
    return sorted((each.in_force_s, each.what is Change.THROTTLE) for each in own)


def _heated(schedule: Schedule, device: Thermal, switches: Sequence[tuple[float, bool]], seconds: float) -> Schedule:
    """``schedule`` until ``seconds``, times the device's factor while it was throttled."""

    def factor(time_s: float) -> float:
        hot = [throttled for at_s, throttled in switches if at_s <= time_s][-1:] == [True]
        return schedule.at(time_s) * (device.factor if hot else 1.0)

    moments = {0.0, *(at_s for at_s, _ in schedule.steps(seconds)), *(at_s for at_s, _ in switches if at_s > 0)}
    return Schedule(points=tuple((time_s, factor(time_s)) for time_s in sorted(moments)))
