"""Campaign, what the steps of one run on a testbed share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.campaign import causes, hidden
from e2c_dl.campaign.causes import Event
from e2c_dl.campaign.hosts import follow
from e2c_dl.campaign.hosts.endings import HostWatch
from e2c_dl.campaign.hosts.gather import Kept, Source
from e2c_dl.campaign.hosts.life import Signs, Silence
from e2c_dl.campaign.request import Request
from e2c_dl.campaign.underway import Underway, there
from e2c_dl.errors import E2cDlError, Interrupted, TestbedError
from e2c_dl.testbeds import catalogue
from e2c_dl.testbeds.base import Testbed, TestbedRun
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
    cause: E2cDlError | None = None  # says best what went wrong
    events: list[Event] = field(default_factory=list)  # seen while it trained
    asked_to_stop: bool = False  # whether this program asked the workers to
    watch: HostWatch | None = None  # over the hosts, while they are up
    kept: Mapping[str, Kept] | None = None  # hosts whose files are not all in the archive; None: not collected
    secrets: tuple[bytes, ...] = ()  # must not stand in the archive
    signs: Signs | None = None  # of life, of the hosts, while they are up
    limitations: set[str] = field(default_factory=set)  # what the testbed cannot honour, as far as that was said

    @property
    def the_testbed(self) -> TestbedRun:
        return there(self.testbed)

    @property
    def the_session(self) -> Session:
        return there(self.session)

    @property
    def silences(self) -> tuple[Silence, ...]:
        """When hosts gave no sign of life, from when they were up until they were released."""
        return () if self.signs is None else self.signs.silences()

    @property
    def gone(self) -> frozenset[str]:
        """The hosts that ended, or gave no sign of life when that was looked at last: nobody need wait for them."""
        silent = {each.host for each in self.silences if each.until_s is None}
        return frozenset(silent) | frozenset(() if self.watch is None else self.watch.seen)

    @contextmanager
    def hosts_up(self) -> Iterator[None]:
        """While in it, a host that ends, or is silent for too long, ends the step: Ansible may wait for it for ever."""
        watch, signs = there(self.watch), there(self.signs)
        with (
            follow.watched(
                lambda: watch.failure() or signs.failure(), lambda why, _: self.interrupts.end(TestbedError(why))
            ),
            self.interrupts.insisting(),
        ):
            yield

    @property
    def verdict(self) -> E2cDlError | None:
        """Also of a run that was asked to stop too late for that: it is whole, but what comes next is not to begin."""
        first = super().verdict
        if first is None and self.interrupts.received is not None:
            late = f"{self.interrupts.first} came when training was over"
            return Interrupted(f"{late}: the run is whole in {self.archive_path}")
        # a stop by the user is no failure of a worker that it stopped
        if first is None or isinstance(first, Interrupted):
            return first
        return self.cause or causes.told(self.failures, self.events)[1]  # of an archive that is gone, what was seen

    @property
    def artifacts_dir(self) -> Path:
        """What was named, or an empty folder that goes with ``work_dir``."""
        if self.request.artifacts is not None:
            return self.request.artifacts
        own = self.work_dir / "artifacts"
        own.mkdir(exist_ok=True)
        return own

    @property
    def work_dir(self) -> Path:
        """The copy of the scenario that E2Clab may write into, secrets and all; it does not outlive the run."""
        return self.the_testbed.state_dir / hidden.WORK

    @property
    def fetch_dir(self) -> Path:
        """Where the workflow fetches to, on the archive's disk: it may be much."""
        return self.archive_path / layout.E2CLAB

    def source(self, *, over_ssh: bool) -> Source:
        """Where the hosts' files may be found."""
        packed = None if self.session is None else self.session.finalize_dir / layout.HOSTS
        accesses = {access.name: access for access in self.the_testbed.accesses}
        silent = frozenset(accesses) if not over_ssh else self.gone
        return Source(
            packed=packed, state_dir=self.the_testbed.state_dir, accesses=accesses, silent=silent,
            lasting=catalogue.keeps_hosts(self.request.testbed),
        )  # fmt: skip

    def keep(self, kept: Iterable[Kept]) -> None:
        """What ``release`` leaves where it is."""
        self.kept = {each.host: each for each in kept}

    def say_limitations(self) -> None:
        """Tell and record what the testbed cannot honour, each once: it may find out more from step to step."""
        for limitation in self.the_testbed.limitations:
            if limitation not in self.limitations:
                self.limitations.add(limitation)
                self.console.say(limitation)
                self.the_archive.limited(limitation)
