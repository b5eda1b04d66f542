"""The steps of a run, and of a probe, in order, as tuples; each is one function of the Campaign that they share."""

from __future__ import annotations

import platform
import shutil
import time
from dataclasses import replace

from e2c_dl import resources
from e2c_dl.archive import layout
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import causes, hidden, last_steps
from e2c_dl.campaign.campaign import Campaign
from e2c_dl.campaign.hosts import endings, follow, life
from e2c_dl.campaign.request import checked
from e2c_dl.campaign.underway import NOT_TRAINED, asked_for, default_archive, now, there, trained, versions
from e2c_dl.campaign.walk import Step
from e2c_dl.errors import EmulationError
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.environment import environment_key
from e2c_dl.scenario.load import LAYERS_SERVICES, load
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.testbeds.e2clab import upstream
from e2c_dl.testbeds.e2clab.experiment import Session


def check(campaign: Campaign) -> None:
    """Read and validate everything; start nothing."""
    campaign.scenario, campaign.kind = checked(campaign.request)
    for remark in campaign.scenario.remarks:
        campaign.console.say(f"remark: {remark}")


def stage(campaign: Campaign) -> None:
    """Create the archive, put into it the scenario as it will be run, and claim a run id."""
    request, scenario = campaign.request, campaign.the_scenario
    started = now()
    testbed = there(campaign.kind).claim(scenario)
    try:
        campaign.testbed = testbed
        campaign.scope.enter_context(upstream.environment(testbed.environ))  # ssh, docker, what Ansible starts
        path = request.archive or default_archive(scenario, testbed.run_id, started)
        archive = Archive.create(path, testbed.run_id, started=started.isoformat(timespec="seconds"))
    except BaseException:  # Ctrl-C too: without an archive nobody else releases it
        campaign.scope.close()
        testbed.release()
        raise
    campaign.archive = archive
    campaign.keep_secret(
        hidden.staged(
            request.scenario, path / layout.SCENARIO, testbed.state_dir, seed=request.seed, healthy=request.healthy
        )
    )
    shapes = scenario.shapes_only
    if shapes:  # hosts compute by it alone; others measure themselves
        for folder in (path / layout.SCENARIO, campaign.work_dir):
            shutil.copyfile(request.scenario / PROFILE, folder / PROFILE)
    campaign.scenario = scenario = replace(load(path / layout.SCENARIO), name=scenario.name)
    testbed.adopt(
        scenario, archive=path, strict=request.strict, only_probe=request.only_probe, artifacts=request.artifacts
    )
    archive.record(
        **asked_for(scenario),
        testbed=request.testbed,
        command=request.command,
        versions=versions(),
        emulation=testbed.facts(),
        facts={
            **trained(scenario), "app_conf": request.app_conf, "current_repeat": request.current_repeat,
            "strict": request.strict, "only_probe": request.only_probe, "kernel": platform.release(),
        },
    )  # fmt: skip
    for limitation in NOT_TRAINED if shapes and not request.only_probe else ():
        archive.limited(limitation)
    campaign.console.begun(testbed.run_id, path)
    campaign.say_limitations()


def provision(campaign: Campaign) -> None:
    """Have the hosts: made, reserved or listed.

    What they cannot do is told after ``emulate`` only: a route may still take what a host's settings refused.
    """
    testbed, say = campaign.the_testbed, campaign.console.say
    testbed.tell = say
    campaign.interrupts.prolong(testbed.waits_s)
    testbed.provision()
    campaign.watch = campaign.scope.enter_context(endings.watched(testbed.endings, say))
    campaign.signs = campaign.scope.enter_context(life.signs_of_life(testbed.accesses, say))
    campaign.the_archive.record(hosts=testbed.host_facts())


def deploy(campaign: Campaign) -> None:
    """Let E2Clab deploy the services on the hosts."""
    testbed = campaign.the_testbed
    session = Session(
        scenario_dir=campaign.work_dir,
        fetch_dir=campaign.fetch_dir,
        artifacts_dir=campaign.artifacts_dir,
        state_dir=testbed.state_dir,
        hosts=len(campaign.the_scenario.topology.hosts),
        provider=testbed.provider(),
        service_dirs=[resources.layers_services_dir()],
        tell=campaign.console.doing,
        app_conf=campaign.request.app_conf,
        current_repeat=campaign.request.current_repeat,
        image=campaign.request.image,
        environment_key=environment_key(read(campaign.work_dir / LAYERS_SERVICES)),
    )
    campaign.session = campaign.scope.enter_context(session)
    with campaign.hosts_up():
        session.infrastructure()


def emulate(campaign: Campaign) -> None:
    """Apply the whole topology at once."""
    with campaign.hosts_up():
        campaign.the_testbed.emulate()
    campaign.the_archive.record(emulation=campaign.the_testbed.facts())
    campaign.say_limitations()


def prepare(campaign: Campaign) -> None:
    """The workflow's prepare."""
    with campaign.hosts_up():
        campaign.the_session.workflow("prepare")


def train(campaign: Campaign) -> None:
    """The workflow's launch: the workers begin, measure their links, then train."""
    testbed, console, interrupts = campaign.the_testbed, campaign.console, campaign.interrupts
    campaign.launched = True  # before it: workers of a launch that fails are collected too

    def lost(why: str, well_s: float) -> None:
        error = EmulationError(why)
        # Since then: workers notice at once, and what they say follows from it.
        campaign.events.append(causes.Event(error=error, sentence=why, at_s=well_s))
        stop()

    def stop() -> None:
        campaign.asked_to_stop = True
        follow.stop_workers(testbed.accesses)

    def alone() -> None:
        if campaign.the_scenario.trained is not None:  # else programs of the user's own, which may go on
            stop()

    try:
        with (
            follow.followed(testbed.rank0, console),
            follow.watched(testbed.emulation_failure, lost, once_more=True),
            follow.ended_together(console.say, alone) as failed,
            campaign.hosts_up(),
        ):
            campaign.the_session.workflow("launch", failed)
            time.sleep(campaign.request.duration_s)  # what ends a step raises in it
    finally:
        campaign.asked_to_stop = campaign.asked_to_stop or interrupts.ended is not None
    if campaign.events:
        raise campaign.events[0].error


MINUTE_S = 60.0
"""Limits are for what hangs: a file system, a package server, a host. Training has none: hosts show that they live."""

STEPS: tuple[Step[Campaign], ...] = (
    Step(name="check", what="reading the scenario", act=check, limit_s=30 * MINUTE_S),
    Step(name="stage", what="opening the archive", act=stage, limit_s=10 * MINUTE_S),
    Step(name="provision", what="making, reserving or listing the hosts", act=provision, limit_s=60 * MINUTE_S),
    Step(name="deploy", what="reaching the hosts and deploying services", act=deploy, limit_s=3 * 60 * MINUTE_S),
    Step(name="emulate", what="shaping the network", act=emulate, limit_s=30 * MINUTE_S),
    Step(name="prepare", what="the workflow's prepare", act=prepare, limit_s=12 * 60 * MINUTE_S),
    Step(name="train", what="starting workers, measuring links, then training", act=train),
    Step(name="collect", what="collecting traces", act=last_steps.collected, limit_s=3 * 60 * MINUTE_S, always=True),
    Step(name="release", what="releasing the hosts", act=last_steps.release, limit_s=30 * MINUTE_S, always=True),
    Step(
        name="verify",
        what="comparing links with what was requested",
        act=last_steps.verify,
        limit_s=10 * MINUTE_S,
        always=True,
    ),
    Step(
        name="report",
        what="finding what slowed it down, sealing the archive",
        act=last_steps.close,
        limit_s=60 * MINUTE_S,
        always=True,
        last=True,
    ),
)

_OF_PROBES = {
    "train": "measuring links, trying gradients",
    "report": "sealing the archive",
}

PROBE_STEPS = tuple(replace(step, what=_OF_PROBES.get(step.name, step.what)) for step in STEPS)
"""The same, where nothing is trained: workers end when they have measured."""
