"""The files of an archive, by name: the one place that knows where things stand.

::

    ARCHIVE/
      run.json                     outcome, times, versions, seeds, what could not be honoured
      ro-crate-metadata.json       the same for machines that know RO-Crate 1.1
      manifest-sha256.txt          checksums of every other file ("sha256  path", as sha256sum prints)
      scenario/                    the scenario's files as they were run
      links.json                   emulation: every link as designed, as requested of the emulator, as measured
      bottlenecks.json             what each shared bottleneck carried, where that was measured
      traces/HOST.parquet          spans of that host's worker as a table: docs/trace-format.md
      connections/HOST.parquet     what its sockets told while it trained, as a table
      hosts/HOST/                  what that host's worker left:
        spans.bin                    its trace as it was recorded, readable even if cut off, until it is a table
        connections.bin              what its sockets told while it trained, likewise
        metrics.csv                  CPU, memory, network, once a second
        facts.json                   hardware, kernel, versions
        clock.json                   alignment to the reference clock
        tracing.json                 of a traced script's rank: what it says of its tracing
        links.json                   what this host measured of its outgoing links
        progress.jsonl               one line per report of progress
        changes.jsonl                what its agent changed while it trained, and when that was in force (own clock):
                                     links, bottlenecks, pauses, kills; only if the scenario changes any of it
        changes-worker.jsonl         the same of its worker: compute, heat, clock; see trace.changes
        heat.csv                     emulated temperature, once a second; only of hosts that throttle themselves
        verdicts.jsonl               of rank 0, if its strategy hears them: who was said to be slow, and when
        outcome.json                 how its worker ended; absent if it exited without an outcome
        ending.json                  how its first process ended; only of a host that ended before it was released
        worker.log
      attempts/NUMBER/HOST/        of a traced script that torchrun began anew: what hosts/HOST was before
      model.npz                    final parameters of rank 0
      fetched/                     what else the workflow fetched into its working_dir, as it lay there
      logs/                        E2Clab's, the relay's, this program's; console.log: what the run told
      report.json  report.html
"""

from __future__ import annotations

from e2c_dl.trace import places

RUN = "run.json"
CRATE = "ro-crate-metadata.json"
MANIFEST = "manifest-sha256.txt"
SCENARIO = "scenario"
LINKS = "links.json"
BOTTLENECKS = "bottlenecks.json"
HOSTS = places.HOSTS
TRACES = places.TRACES
CONNECTIONS = places.CONNECTIONS
SPANS_RAW = places.RAW  # gone once its table was read back and compared
CONNECTIONS_RAW = places.CONNECTIONS_RAW  # gone as SPANS_RAW is
METRICS = "metrics.csv"
FACTS = "facts.json"
CLOCK = places.CLOCK
TRACING = "tracing.json"
HOST_LINKS = "links.json"  # in a host's folder
PROGRESS = "progress.jsonl"
SETUP = "setup.jsonl"  # of rank 0, followed while it sets up; not archived
CHANGES = "changes.jsonl"
WORKER_CHANGES = "changes-worker.jsonl"
HEAT = "heat.csv"
VERDICTS = "verdicts.jsonl"
OUTCOME = places.OUTCOME
ENDING = "ending.json"
WORKER_LOG = "worker.log"
HOST_RECORDS = frozenset({
    SPANS_RAW, CONNECTIONS_RAW, METRICS, FACTS, CLOCK, TRACING, HOST_LINKS, PROGRESS, SETUP, CHANGES, WORKER_CHANGES,
    HEAT, VERDICTS, OUTCOME, ENDING, WORKER_LOG,
})  # fmt: skip
"""What this program writes into a host's folder; of a traced script's rank, other files are the script's own."""

MODEL = "model.npz"
ATTEMPTS = "attempts"
LOGS = "logs"
FETCHED = "fetched"
E2CLAB = ".e2clab"  # while a run goes on: the copy of the scenario that E2Clab may write into
CONSOLE_LOG = "console.log"  # in it
REPORT_JSON = "report.json"
REPORT_HTML = "report.html"
