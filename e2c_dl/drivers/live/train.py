"""One rank's run from joining to leaving: the steps, and what is left in the run directory whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import numpy as np

from e2c_dl import strategies
from e2c_dl.archive.records import Cause, Deployed
from e2c_dl.beneath import LARGE_BYTES
from e2c_dl.drivers.live import mathematics
from e2c_dl.drivers.live.beside import own_links
from e2c_dl.drivers.live.budget.account import account_of
from e2c_dl.drivers.live.budget.shares import AskedShare, share_of
from e2c_dl.drivers.live.calibrating import Tell
from e2c_dl.drivers.live.changes import HostChanges
from e2c_dl.drivers.live.clocks import Clocks
from e2c_dl.drivers.live.control import WHILE_ALIVE, Aborted, Control
from e2c_dl.drivers.live.coordinator import Coordinator
from e2c_dl.drivers.live.ending.collect import collect
from e2c_dl.drivers.live.facts import tcp_limits
from e2c_dl.drivers.live.gpu.sampled import Gpu
from e2c_dl.drivers.live.key import take
from e2c_dl.drivers.live.measuring import measure, probe
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.drivers.live.metrics import Metrics, device_with
from e2c_dl.drivers.live.progress import ProgressLog, SetupLog
from e2c_dl.drivers.live.verdicts.hearing import Hearing
from e2c_dl.errors import E2cDlError, FidelityError, PeerLost
from e2c_dl.scenario.model import SHAPES
from e2c_dl.strategies.base import Compute, Evaluation, Strategy
from e2c_dl.trace.clocks.questions import Clock
from e2c_dl.trace.propagation.sockets import OwnSockets, SocketSampler
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.training.late import LateCompute
from e2c_dl.worlds.live import Address, LiveWorker, Network, SocketOptions
from e2c_dl.worlds.trained import CURVE_RANK, TrainedModel

SMALL_BYTES = 1 << 16  # a message may be larger than a small model


async def train(assignment: Assignment, progress: ProgressLog) -> Evaluation | None:
    """Train as one rank of all; rank 0 returns how good the result is.

    If any rank fails, is stopped or lost, all raise: the first cause, as far as it is known.

    Raises: E2cDlError; CancelledError if cancelled.
    """
    key = take(assignment.run_dir)  # first: it must not lie there while anything else may fail
    async with AsyncExitStack() as resources:
        tell = _teller(assignment, resources)
        control = await _join(assignment, resources, key, tell)
        try:
            evaluation = await control.guard(_steps(assignment, control, resources, progress, key, tell))
            await control.leave()
            return evaluation
        except Aborted:
            raise
        except asyncio.CancelledError:
            await control.fail("it was asked to stop", cause=Cause.STOPPED)
            raise
        except Exception as error:
            # Said before any connection closes: what the others then see of this rank is no news to them.
            first = await _told(control, error)
            if isinstance(error, PeerLost) and first is not None:  # the loss may follow from another's failure
                raise first from error
            raise


async def _told(control: Control, error: Exception) -> Aborted | None:
    """Tell the others of ``error``; the first cause, as the coordinator sees it."""
    exit_code = error.exit_code if isinstance(error, E2cDlError) else E2cDlError.exit_code
    if isinstance(error, PeerLost):
        return await control.fail(error.why, cause=Cause.LOST_PEER, exit_code=exit_code, lost=error.rank)
    cause = Cause.NOT_AS_REQUESTED if isinstance(error, FidelityError) else Cause.FAILED
    return await control.fail(" ".join(str(error).split()) or type(error).__name__, cause=cause, exit_code=exit_code)


def _teller(assignment: Assignment, resources: AsyncExitStack) -> Tell:
    """What takes the account of setting up: of all ranks, from rank 0, as it is where all of them meet."""
    if assignment.rank:
        return lambda _: None
    log = SetupLog(assignment.records)
    resources.callback(log.close)
    return log.tell


async def _join(assignment: Assignment, resources: AsyncExitStack, key: bytes, tell: Tell) -> Control:
    names = [member.name for member in assignment.members]
    first = assignment.members[0]
    if assignment.rank == 0:
        coordinator = Coordinator(names, key, tell, account_of(assignment.scenario.training))
        resources.push_async_callback(coordinator.close)  # before it listens: if that fails, it is closed all the same
        await coordinator.listen(first.address, first.control_port)
    control = await Control.join(first.address, first.control_port, rank=assignment.rank, names=names, key=key)
    resources.callback(control.close)  # before the coordinator's: resources end in reverse
    return control


async def _steps(
    assignment: Assignment, control: Control, resources: AsyncExitStack, progress: ProgressLog, key: bytes, tell: Tell
) -> Evaluation | None:
    training = assignment.scenario.training
    strategy = strategies.load(training.strategy)(**training.strategy_settings)
    own, records = assignment.own, assignment.records
    assignment, deployed = await own_links.put_in_force(assignment, control, resources)
    emulation = HostChanges(assignment)
    resources.push_async_callback(emulation.end)  # after the compute thread, which logs what it passes
    recorder = resources.enter_context(Recorder(
        records.spans, rank=assignment.rank, host=own.name, layer=own.host.layer, own_ns=emulation.clock.own_ns,
        cap_bytes=LARGE_BYTES,
    ))  # fmt: skip
    gpu = _sampled(assignment, resources, emulation.clock)
    thread = resources.enter_context(ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute"))
    compute = await mathematics.prepare(assignment, control, thread, emulation, tell)
    if gpu is not None:
        gpu.begin(records)
    resources.callback(compute.pacing.stop)  # leaving waits for the thread, which may be sleeping
    clocks = await Clocks.start(assignment, control, resources, emulation.clock)
    await _tried(assignment, deployed, control, thread, compute, tell)
    if own.only_probe:
        await control.barrier("concluded")
        return None
    await emulation.start()  # before ranks meet again: what changes while training runs is ready to
    records.amend_facts(emulation=emulation.facts)
    layers = [member.host.layer for member in assignment.members]
    network = _listen(assignment, recorder, key, compute.parameters.nbytes)
    resources.callback(network.abort)  # after close(): no effect
    await _connect(assignment, control, network, strategy.used_links(layers))
    sockets = resources.enter_context(SocketSampler(
        records.connections, rank=assignment.rank, host=own.name, source=OwnSockets(own.data_address),
        own_ns=emulation.clock.own_ns, cap_bytes=LARGE_BYTES,
        rate_hz=0,  # messages are recorded: what iterations began with will do
    ))  # fmt: skip
    share = share_of(training, assignment.rank, recorder.clock, control.say_budget)
    if isinstance(share, AskedShare):
        control.on_budget = share.hear
    worker = LiveWorker(
        network=network, compute=_late(compute, emulation, resources), thread=thread, recorder=recorder,
        samples=training.batch_sizes[assignment.rank], total_samples=sum(training.batch_sizes), layers=layers,
        seed=training.seed, budget=share, evaluate_every=training.evaluate_every,
        on_progress=progress.report, on_iteration=_both(emulation.iteration, sockets.iteration),
        shapes=training.mathematics == SHAPES,
    )  # fmt: skip
    hearing = await Hearing.start(assignment, control, strategy)
    resources.push_async_callback(hearing.end)
    await control.barrier("start")  # all links are open, everywhere
    emulation.began()
    progress.begin(share, TrainedModel.of(strategy, training.batch_sizes).curve)  # set-up is no part of training
    trained = worker.run(
        strategy,
        everybody=lambda: control.barrier("trained", WHILE_ALIVE),  # a slow rank may take as long as it takes
        as_seen=training.wrapping,
    )
    async with clocks.followed():
        await emulation.watched(hearing.watched(trained, worker.tell))
    sockets.close()  # while there are connections
    assignment.records.amend_facts(sockets=sockets.facts)
    await network.close()  # before the last clock exchange, which messages would delay
    await clocks.finish()
    return await _conclude(assignment, strategy, worker, control, progress, key)


def _late(compute: Compute, emulation: HostChanges, resources: AsyncExitStack) -> Compute:
    """``compute``, late as the scenario has it."""
    if not emulation.lateness.faults:
        return compute
    late = LateCompute(compute, emulation.later_s)
    resources.callback(late.stop)  # leaving waits for the thread, which may be late
    return late


async def _tried(
    assignment: Assignment, deployed: Deployed | None, control: Control, thread: ThreadPoolExecutor,
    compute: mathematics.Mathematics, tell: Tell,
) -> None:  # fmt: skip
    """Measure what training will use; what emulates it is on record before, and also if that fails."""
    assignment.records.amend_facts(deployed=deployed)
    rows = await measure(assignment, control, tell)
    await probe(assignment, control, thread, compute, rows, tell)


def _sampled(assignment: Assignment, resources: AsyncExitStack, clock: Clock) -> Gpu | None:
    """Metrics are written from now on until ``resources`` are released; the GPU that they will be of, if any."""
    own = assignment.own
    device = own.data_device or device_with(own.data_address)  # else the one that has the address
    gpu = None if assignment.scenario.training.device == "cpu" else Gpu()
    if gpu is not None:
        resources.callback(gpu.close)  # after the metrics, whose thread asks it
    resources.callback(Metrics(assignment.records.metrics_file, device, clock=clock, more=gpu).close)
    return gpu


def _both(first: Callable[[int], None], second: Callable[[int], None]) -> Callable[[int], None]:
    def told(iteration: int) -> None:
        first(iteration)
        second(iteration)

    return told


def _listen(assignment: Assignment, recorder: Recorder, key: bytes, model_bytes: int) -> Network:
    return Network(
        assignment.own.data_address, rank=assignment.rank, size=assignment.size, key=key, recorder=recorder,
        largest_payload_bytes=2 * model_bytes + SMALL_BYTES,
        options=SocketOptions(congestion_control=assignment.scenario.tcp.congestion_control),
    )  # fmt: skip


async def _connect(
    assignment: Assignment, control: Control, network: Network, links: Sequence[tuple[int, int]]
) -> None:
    """Open ``links``, all ranks together, and record what TCP they got."""
    listening = await control.gather("listening", [network.address.host, network.address.port])
    await network.connect([Address(host=host, port=port) for host, port in listening], links)
    names = [member.name for member in assignment.members]
    assignment.records.amend_facts(
        congestion_control={
            "requested": assignment.scenario.tcp.congestion_control,
            "in_force": {names[dst]: name for dst, name in network.congestion_control.items()},
        },
        buffers={
            "limits": tcp_limits(), "at_start": {names[dst]: each for dst, each in network.buffers().items()},
        },
    )  # fmt: skip


async def _conclude(
    assignment: Assignment, strategy: Strategy, worker: LiveWorker, control: Control, progress: ProgressLog, key: bytes
) -> Evaluation | None:
    """How good the strategy's model is, at rank 0, which saves it; all others wait meanwhile."""
    real = assignment.scenario.training.mathematics != SHAPES
    model = TrainedModel.of(strategy, await control.gather("samples", worker.samples, WHILE_ALIVE))
    if real:  # of shapes there is nothing to collect
        worker.parameters[:] = await collect(
            model, worker.parameters, control, address=assignment.own.address, size=assignment.size, key=key
        )
    evaluation = await worker.evaluate() if assignment.rank == CURVE_RANK else None
    if evaluation is not None and real:  # else the time it takes is all that is to know of it
        progress.evaluated(evaluation.loss, evaluation.accuracy, model.described())
        np.savez(assignment.records.model, parameters=worker.parameters)
    await control.barrier("concluded", WHILE_ALIVE)  # others' ends must not look like losses while rank 0 evaluates
    return evaluation if real else None
