"""Every error this project raises on purpose, in one tree, each with the exit code that the command line ends with.

::

    E2cDlError                    1   something went wrong that a user can act on
    |-- InputError                2   what was asked for is wrong: nothing was started
    |   `-- ScenarioError         2   ... in a scenario's file, at a key
    |-- TestbedError              1   hosts could not be brought up, reached or released
    |-- EmulationError            1   network or compute could not be emulated
    |   `-- FidelityError         3   emulated, but not as requested (``--strict``)
    |-- TrainingError             1   training failed
    |   `-- PeerLost              1   ... because another rank went away
    |-- ArchiveError              1   an archive is damaged, or could not be written
    |   |-- NoArchive             2   what was named is none
    |   |-- ArchiveTaken          2   where a new one was to be made there is something
    |   `-- ArchiveBusy           1   ... because another process writes it, or has
    |-- AnalysisError             1   a trace cannot be analysed
    `-- Interrupted             130   the user asked to stop (Ctrl-C)

A message says what happened, where, and what to do about it, in one line.
"""

from __future__ import annotations


class E2cDlError(Exception):
    """Base of all errors raised on purpose; ``exit_code`` is what the command line returns."""

    exit_code = 1


class InputError(E2cDlError):
    """What the user asked for cannot be done as asked; nothing was started."""

    exit_code = 2


class ScenarioError(InputError):
    """A scenario's file is wrong at a key.

    Reads as one line: ``network.yaml: networks[0].rate: '10mbps' ...; write 10mbit``, with the line of the file
    behind its name where it is known: ``network.yaml:7: networks[0].rate: ...``.
    """

    def __init__(self, file: str, key: str, problem: str, remedy: str, *, line: int | None = None) -> None:
        self.file, self.key, self.problem, self.remedy, self.line = file, key, problem, remedy, line
        place = file if line is None else f"{file}:{line}"
        where = f"{place}: {key}" if key else place
        super().__init__(" ".join(f"{where}: {problem}; {remedy}".split()))


class TestbedError(E2cDlError):
    """Hosts could not be brought up, reached or released."""

    __test__ = False  # its name begins with "Test": not a test class for pytest


class EmulationError(E2cDlError):
    """The network or the compute could not be emulated."""


class FidelityError(EmulationError):
    """The network was emulated, but measures differently from what was requested, under ``--strict``."""

    exit_code = 3


class TrainingError(E2cDlError):
    """Training failed."""


class PeerLost(TrainingError):
    """Another rank went away, or cannot be reached any more."""

    def __init__(self, rank: int, why: str) -> None:
        self.rank, self.why = rank, why
        super().__init__(f"lost rank {rank}: {why}")


class ArchiveError(E2cDlError):
    """An archive is damaged, or lacks something, or could not be written."""


class NoArchive(ArchiveError):
    """What was named as an archive is none."""

    exit_code = 2


class ArchiveTaken(ArchiveError):
    """Where a new archive was to be made there is something."""

    exit_code = 2


class ArchiveBusy(ArchiveError):
    """Another process writes the archive, or has made it meanwhile."""


class AnalysisError(E2cDlError):
    """A trace cannot be analysed."""


class Interrupted(E2cDlError):
    """The user asked to stop."""

    exit_code = 130
    again_s = 0.05  # until one that was dropped, as Python and Ansible do in callbacks, is raised again by an alarm
