"""The steps of a run, in order, as a tuple one can read; each is one function of the Campaign that they share."""

from __future__ import annotations

import platform
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from e2c_dl import resources
from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import collect, follow, life
from e2c_dl.campaign.life import Signs, Silence
from e2c_dl.campaign.request import Request, checked
from e2c_dl.campaign.requested_links import write_links
from e2c_dl.campaign.underway import NOT_TRAINED, Underway, asked_for, default_archive, now, there, versions
from e2c_dl.campaign.walk import Step
from e2c_dl.errors import E2cDlError, EmulationError, Interrupted, TrainingError
from e2c_dl.scenario import copies
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import SHAPES
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Testbed, TestbedRun
from e2c_dl.testbeds.e2clab import upstream
from e2c_dl.testbeds.e2clab.experiment import Session


@dataclass(kw_only=True)
class Campaign(Underway):
    """What the steps of one run share."""

    request: Request
    kind: Testbed | None = None
    testbed: TestbedRun | None = None
    session: Session | None = None
    scope: ExitStack = field(default_factory=ExitStack)  # what of this process is changed until the hosts are released
    launched: bool = False  # whether workers were started, so that there is something to collect
    lost: str | None = None  # why the emulation died, if it did
    cause: E2cDlError | None = None  # says better than the first failure what went wrong
    secrets: tuple[bytes, ...] = ()  # must not stand in the archive
    signs: Signs | None = None  # of life, of the hosts, while they train and after it
    limitations: set[str] = field(default_factory=set)  # what the testbed cannot honour, as far as that was said

    @property
    def the_testbed(self) -> TestbedRun:
        return there(self.testbed)

    @property
    def the_session(self) -> Session:
        return there(self.session)

    @property
    def silences(self) -> tuple[Silence, ...]:
        """When hosts gave no sign of life, as far as they were looked at: from before training until its end."""
        return () if self.signs is None else self.signs.silences()

    @property
    def verdict(self) -> E2cDlError | None:
        first = super().verdict
        # a stop by the user is no failure of a worker that it stopped
        return first if first is None or self.cause is None or isinstance(first, Interrupted) else self.cause

    @property
    def work_dir(self) -> Path:
        """The copy of the scenario that E2Clab may write into; it does not outlive the run."""
        return self.archive_path / ".e2clab"

    def say_limitations(self) -> None:
        """Tell and record what the testbed cannot honour, each once: it may find out more from step to step."""
        for limitation in self.the_testbed.limitations:
            if limitation not in self.limitations:
                self.limitations.add(limitation)
                self.console.say(limitation)
                self.the_archive.limited(limitation)


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
    copies.overridden(request.scenario, path / layout.SCENARIO, seed=request.seed, healthy=request.healthy)
    shapes = scenario.training.mathematics == SHAPES
    if shapes:  # hosts compute by it alone; others measure themselves
        shutil.copyfile(request.scenario / PROFILE, path / layout.SCENARIO / PROFILE)
    shutil.copytree(path / layout.SCENARIO, campaign.work_dir)  # E2Clab writes into its folder
    campaign.scenario = scenario = replace(load(path / layout.SCENARIO), name=scenario.name)
    testbed.adopt(scenario, archive=path, strict=request.strict)
    archive.record(
        **asked_for(scenario),
        testbed=request.testbed,
        command=request.command,
        versions=versions(),
        emulation=testbed.facts(),
        facts={
            "training": vars(scenario.training), "mathematics": scenario.training.mathematics,
            "strict": request.strict, "kernel": platform.release(),
        },
    )  # fmt: skip
    for limitation in NOT_TRAINED if shapes else ():
        archive.limited(limitation)
    campaign.console.begun(testbed.run_id, path)
    campaign.say_limitations()


def provision(campaign: Campaign) -> None:
    """Have the hosts: made, reserved or listed.

    What they cannot do is told after ``emulate`` only: a route may still take what a host's settings refused.
    """
    campaign.the_testbed.provision()
    campaign.the_archive.record(hosts=campaign.the_testbed.host_facts())


def deploy(campaign: Campaign) -> None:
    """Let E2Clab deploy the services on the hosts."""
    testbed = campaign.the_testbed
    session = Session(
        scenario_dir=campaign.work_dir,
        artifacts_dir=campaign.request.artifacts,
        state_dir=testbed.state_dir,
        hosts=len(campaign.the_scenario.topology.hosts),
        provider=testbed.provider(),
        service_dirs=[resources.layers_services_dir()],
        tell=campaign.console.doing,
    )
    campaign.session = campaign.scope.enter_context(session)
    session.infrastructure()


def emulate(campaign: Campaign) -> None:
    """Apply the whole topology at once."""
    campaign.the_testbed.emulate()
    campaign.the_archive.record(emulation=campaign.the_testbed.facts())
    campaign.say_limitations()


def prepare(campaign: Campaign) -> None:
    """The workflow's prepare."""
    campaign.the_session.workflow("prepare")


def train(campaign: Campaign) -> None:
    """The workflow's launch: the workers begin, measure their links, then train, while all hosts give signs of life."""
    testbed, console, interrupts = campaign.the_testbed, campaign.console, campaign.interrupts
    campaign.launched = True  # before it: workers of a launch that fails are collected too

    def lost(why: str) -> None:
        campaign.lost = why
        follow.stop_workers(testbed.accesses)

    try:
        with (
            life.signs_of_life(testbed.accesses, console.say, interrupts.end) as campaign.signs,
            follow.followed(testbed.rank0, console.doing, console.progress),
            follow.watched(testbed.emulation_failure, lost),
        ):
            campaign.the_session.workflow("launch")
    finally:
        if campaign.lost is not None:
            campaign.cause = EmulationError(campaign.lost)
        elif interrupts.ended is not None:
            campaign.cause = None if isinstance(interrupts.ended, Interrupted) else interrupts.ended
            silent = {silence.host for silence in campaign.silences if silence.until_s is None}
            # those that do not answer could not be told
            follow.stop_workers(tuple(access for access in testbed.accesses if access.name not in silent))
    if campaign.cause is not None:
        raise campaign.cause


def collected(campaign: Campaign) -> None:
    """The workflow's finalize, then everything into its place in the archive; what became of the workers is said."""
    if not campaign.launched:
        return
    archive, scenario = campaign.the_archive, campaign.the_scenario
    for limitation in campaign.the_testbed.end_emulation():
        archive.limited(limitation)
    campaign.the_session.workflow("finalize")
    collect.unpack(campaign.the_session.output_dir, scenario, archive.path)
    left = open_archive(archive.path)
    for limitation in collect.not_slowed(left.host_facts):
        archive.limited(limitation)
        campaign.console.say(limitation)
    sentences, cause = collect.explained(left.outcomes(host.name for host in scenario.topology.ranks))
    for sentence in [*([campaign.lost] if campaign.lost else []), *sentences]:
        archive.happened(sentence)
    campaign.cause = campaign.cause or cause


def release(campaign: Campaign) -> None:
    """Give the hosts back and remove all that was made on this machine, or keep it if asked."""
    testbed = campaign.the_testbed
    campaign.secrets = testbed.secrets()  # before they are removed with the hosts
    with ExitStack() as whatever_fails:  # a disk that is full fails the copy of logs, and the close of E2Clab's own
        whatever_fails.callback(_give_back_or_keep, campaign, testbed)
        whatever_fails.callback(shutil.rmtree, campaign.work_dir, ignore_errors=True)
        whatever_fails.callback(campaign.scope.close)
        if campaign.session is not None:
            collect.keep_logs(campaign.session.output_dir, testbed.log_files(), campaign.archive_path)


def _give_back_or_keep(campaign: Campaign, testbed: TestbedRun) -> None:
    if campaign.request.keep and not campaign.failures:
        testbed.emulate()  # it was ended for its last report: hosts that stay up need their network
        registry.changed(registry.load(testbed.run_id), kept=True)
        campaign.console.say(f"hosts stay up: `e2c-dl shell HOST`; `e2c-dl destroy {testbed.run_id}` ends them")
    else:
        testbed.release()


def verify(campaign: Campaign) -> None:
    """Every link designed, requested and measured, side by side; what is not as requested is said."""
    for sentence in write_links(open_archive(campaign.archive_path), campaign.the_scenario):
        campaign.console.say(f"not as requested: {sentence}")
        campaign.the_archive.limited(f"link {sentence}")


def close(campaign: Campaign) -> None:
    """Say how the run ended, analyse it, write the report, and seal the archive."""
    said_better = campaign.cause is not None  # by the workers
    happened = [
        f"{step}: {error}"
        for step, error in campaign.failures
        if not (said_better and isinstance(error, TrainingError))
    ]
    campaign.conclude([*(silence.told() for silence in campaign.silences), *happened], campaign.secrets)


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
    Step(name="collect", what="collecting traces", act=collected, limit_s=3 * 60 * MINUTE_S, always=True),
    Step(name="release", what="releasing the hosts", act=release, limit_s=30 * MINUTE_S, always=True),
    Step(name="verify", what="comparing links with what was requested", act=verify, limit_s=10 * MINUTE_S, always=True),
    Step(
        name="report",
        what="finding what slowed it down, sealing the archive",
        act=close,
        limit_s=60 * MINUTE_S,
        always=True,
        last=True,
    ),
)
