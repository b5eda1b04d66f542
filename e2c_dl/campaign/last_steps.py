"""The steps that every run takes once there is an archive, whatever went wrong: collect, release, verify, report."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress

from e2c_dl.archive import layout
from e2c_dl.archive.read import host_records, open_archive
from e2c_dl.campaign import causes, collect
from e2c_dl.campaign.campaign import Campaign
from e2c_dl.campaign.hosts import follow, ranks
from e2c_dl.campaign.hosts.gather import Kept, gather, stay
from e2c_dl.campaign.links.requested_links import write_links
from e2c_dl.errors import ArchiveError, E2cDlError, Interrupted
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import TestbedRun

LATE = "came when training was over; all that was left to do was done"


def collected(campaign: Campaign) -> None:
    """The workflow's finalize, then each host's files into their place in the archive; what became of the workers.

    What cannot be put into the archive is kept where it is. Raises: the first of what failed, after all was tried.
    """
    if not campaign.launched:
        return
    testbed, failures = campaign.the_testbed, list[Exception]()
    # A program of the user's may go on in the background until finalize has waited for it, over the emulated network.
    ours = campaign.the_scenario.trained is not None
    order = (_end_emulation, _finalize) if ours else (_finalize, _keep_written, _end_emulation)
    for act in (_stop_workers, *order):
        try:
            if not any(isinstance(error, Interrupted) for error in failures):  # else nothing is waited for any more
                act(campaign)
        except Exception as failed:  # noqa: BLE001 - whatever it is: what is on the hosts is collected all the same
            failures.append(failed if isinstance(failed, (E2cDlError, OSError)) else campaign.defect("collect", failed))
    stopped = any(isinstance(error, Interrupted) for error in failures)
    hosts = campaign.the_scenario.topology.ranks
    source = campaign.source(over_ssh=not stopped)
    campaign.keep(gather(hosts, source, campaign.archive_path))
    if (campaign.archive_path / layout.RUN).is_file():  # an archive that is gone is not made anew
        for host, ending in ({} if campaign.watch is None else campaign.watch.seen).items():
            host_records(campaign.archive_path, host).write_ending(ending)
    if campaign.kept:
        names = ", ".join(each.host for each in campaign.kept.values())
        fetched = f"; `e2c-dl collect {testbed.run_id}` fetches it" if stay(campaign.kept.values()) else ""
        failures.append(ArchiveError(f"not all of what {names} left is in the archive{fetched}"))
    if failures:
        raise failures[0]


def _stop_workers(campaign: Campaign) -> None:
    """Of a run that failed; else they have ended by themselves."""
    if campaign.failures:
        campaign.asked_to_stop = True
        follow.stop_workers(tuple(each for each in campaign.the_testbed.accesses if each.name not in campaign.gone))


def _end_emulation(campaign: Campaign) -> None:
    for limitation in campaign.the_testbed.end_emulation():
        campaign.the_archive.limited(limitation)


def _finalize(campaign: Campaign) -> None:
    """For all hosts at once, or not at all: Ansible would wait for those that do not answer.

    Nor where the archive is gone: its folder would be made anew for what is fetched, and half an archive in it.
    """
    if not (campaign.archive_path / layout.RUN).is_file():
        campaign.console.say(f"the workflow's finalize is left out, as {campaign.archive_path} is there no more")
    elif campaign.gone:
        campaign.console.say(f"the workflow's finalize is left out, as it would wait for {', '.join(campaign.gone)}")
    else:
        with campaign.hosts_up():
            campaign.the_session.workflow("finalize")


def _keep_written(campaign: Campaign) -> None:
    """Traces that a traced program has written by itself, on hosts where it was traced as far as that can be seen."""
    source = campaign.source(over_ssh=True)
    accesses = [each for each in campaign.the_testbed.accesses if each.name not in campaign.gone]
    asked = [each for each in accesses if ranks.may_be_there(source.run_dir(each.name))]
    for sentence in ranks.keep_written(asked):
        campaign.the_archive.limited(sentence)


def release(campaign: Campaign) -> None:
    """Give the hosts back and remove all that was made on this machine, or keep it if asked.

    Where traces could not be collected, the run directories that hold them stay.
    """
    testbed = campaign.the_testbed
    if campaign.launched and campaign.kept is None:  # collecting broke off: what is there is not known to be anywhere
        source = campaign.source(over_ssh=False)
        hosts = [host.name for host in campaign.the_scenario.topology.ranks]
        campaign.keep(Kept(host=host, where=source.where(host), why="it was not collected") for host in hosts)
    for each in (campaign.kept or {}).values():
        campaign.console.say(each.sentence(testbed.run_id))
    with ExitStack() as whatever_fails:  # a disk that is full fails the copy of logs, and the close of E2Clab's own
        if campaign.kept and stay(campaign.kept.values()):
            whatever_fails.callback(_know_what_is_kept, campaign.kept, testbed)  # again: there may be room by then
        whatever_fails.callback(_give_back_or_keep, campaign, testbed)
        if campaign.kept is not None:
            whatever_fails.callback(_know_what_is_kept, campaign.kept, testbed)
        whatever_fails.callback(_tidy, campaign)
        whatever_fails.callback(campaign.scope.close)
        campaign.secrets = testbed.secrets()  # before they are removed with the hosts
        if campaign.session is not None and (campaign.archive_path / layout.RUN).is_file():
            session, archive = campaign.session, campaign.archive_path
            collect.keep_logs(session.log_dir, testbed.log_files(), archive, campaign.redactor)
            collect.keep_fetched(session.finalize_dir, archive)


def _tidy(campaign: Campaign) -> None:
    """E2Clab's own folders are gone; and with it an archive that is only there as Ansible made its folder anew."""
    for folder in (campaign.work_dir, campaign.fetch_dir):
        shutil.rmtree(folder, ignore_errors=True)
    if not (campaign.archive_path / layout.RUN).is_file():
        with suppress(OSError):  # there is more in it: then it is somebody's
            campaign.archive_path.rmdir()


def _know_what_is_kept(kept: Mapping[str, Kept], testbed: TestbedRun) -> None:
    """On record before anything is removed: `e2c-dl collect` and `destroy` go by it."""
    try:
        registry.changed(registry.load(testbed.run_id), details={registry.UNCOLLECTED: stay(kept.values())})
    except OSError:
        if stay(kept.values()):  # else it is for those who come when this process is killed before all is released
            raise


def _give_back_or_keep(campaign: Campaign, testbed: TestbedRun) -> None:
    if campaign.request.keep and not campaign.failures:
        testbed.emulate()  # it was ended for its last report: hosts that stay up need their network
        registry.changed(registry.load(testbed.run_id), kept=True)
        campaign.console.say(f"hosts stay up: `e2c-dl shell HOST`; `e2c-dl destroy {testbed.run_id}` ends them")
    else:
        testbed.release(frozenset(campaign.kept or ()))


def verify(campaign: Campaign) -> None:
    """Every link designed, requested and measured, side by side; what is not as requested is said."""
    for sentence in write_links(open_archive(campaign.archive_path), campaign.the_scenario):
        campaign.console.say(f"not as requested: {sentence}")
        campaign.the_archive.limited(f"link {sentence}")


def close(campaign: Campaign) -> None:
    """Say how the run ended, analyse it, write the report, and seal the archive."""
    shutil.rmtree(campaign.fetch_dir, ignore_errors=True)  # of a release that failed: its links lead out of the archive
    left, found = open_archive(campaign.archive_path), list(campaign.events)
    if campaign.launched:
        # A program of the user's says by its exit status alone how it ended, and the workflow's step fails with it.
        hosts = () if campaign.the_scenario.trained is None else campaign.the_scenario.topology.ranks
        found += collect.events(
            left, hosts,
            silences=campaign.silences, asked_to_stop=campaign.asked_to_stop, kept=campaign.kept or (),
        )  # fmt: skip
        for limitation in causes.not_slowed(left.host_facts):
            campaign.the_archive.limited(limitation)
            campaign.console.say(limitation)
    happened, campaign.cause = causes.told(campaign.failures, found)
    kept = [each.sentence(campaign.the_testbed.run_id) for each in (campaign.kept or {}).values()]
    back = [each.told() for each in campaign.silences if each.until_s is not None]  # else it is told as the cause
    is_late = campaign.verdict is not None and not campaign.failures
    late = [f"{campaign.interrupts.first} {LATE}"] if is_late else []
    campaign.conclude([*happened, *back, *kept, *late], campaign.secrets)
