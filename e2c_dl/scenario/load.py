"""Loading of a scenario's folder: one checked :class:`Scenario`, or to everything that is wrong with it.

::

    layers_services.yaml -> hosts, ranks, Training      workflow.yaml      checked against the hosts
    network.yaml         -> links between the hosts     workflow_env.yaml  checked, if there
    emulation.yaml       -> what those cannot say       if there; with the traces that it names

Needs neither e2clab nor torch; nothing is started or written.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.resources import layers_services_dir
from e2c_dl.scenario import devices
from e2c_dl.scenario.documents.document import Document, read
from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.emulation.file import Emulation, OtherFiles, names_traces, read_emulation
from e2c_dl.scenario.environment import MANAGERS
from e2c_dl.scenario.fewer_ranks import training_without
from e2c_dl.scenario.folder import own_code
from e2c_dl.scenario.folder.own_files import check_own
from e2c_dl.scenario.folder.secret_values import remarks
from e2c_dl.scenario.folder.sweeps import sweeps
from e2c_dl.scenario.layers import Layers, read_layers
from e2c_dl.scenario.model import SHAPES, Scenario, Training
from e2c_dl.scenario.network import read_network
from e2c_dl.scenario.training import read_training
from e2c_dl.scenario.workflow import (
    check_code_sent,
    check_profile_sent,
    check_traces_sent,
    check_worker_is_there,
    check_workflow,
    check_workflow_env,
)
from e2c_dl.strategies import load as load_strategy
from e2c_dl.strategies import names as strategy_names
from e2c_dl.topology import Link, Pair, Topology

LAYERS_SERVICES = "layers_services.yaml"
NETWORK = "network.yaml"
WORKFLOW = "workflow.yaml"
WORKFLOW_ENV = "workflow_env.yaml"
EMULATION = "emulation.yaml"
FILES = (LAYERS_SERVICES, NETWORK, WORKFLOW, WORKFLOW_ENV, EMULATION)

UsedLinks = Callable[[str, int], Sequence[tuple[int, int]]]
"""The directed links (rank, rank) that a strategy uses, of its name and the number of ranks."""


def load(
    path: Path,
    services: frozenset[str] | None = None,
    *,
    strategies: frozenset[str] | None = None,
    used_links: UsedLinks | None = None,
    name: str | None = None,
) -> Scenario:
    """The scenario in the folder ``path``.

    ::

        scenario = load(Path("experiments/first-light"))
        scenario.topology.link("edge-1", "edge-2")    Link(rate_bps=40e6, delay_s=0.002, ...)
        scenario.training.strategy                    "allreduce"
        load(Path("experiments/frist-light"))         ScenarioError: ...: is not a folder; name a folder, or ...

    ``services`` and ``strategies`` are the names that exist (default: those installed); ``used_links`` says what links
    of a strategy a random one is drawn from (default: asks the strategy); ``name`` is what the scenario is called
    (default: as the folder is).

    Raises: ScenarioError, the first of :func:`problems`.
    """
    found = Findings()
    scenario = _scenario(path, services, strategies, used_links, found)
    found.check()
    if scenario is None:
        raise ScenarioError(str(path), "", "cannot be read", "report this: no reason was found")
    return scenario if name is None else replace(scenario, name=name)


def problems(
    path: Path,
    services: frozenset[str] | None = None,
    *,
    strategies: frozenset[str] | None = None,
    used_links: UsedLinks | None = None,
) -> tuple[ScenarioError, ...]:
    """All that is wrong with the scenario in the folder ``path``, file by file; empty if it can be loaded."""
    found = Findings()
    _scenario(path, services, strategies, used_links, found)
    return tuple(found.errors)


def local_problems(scenario: Scenario, *, elsewhere: bool) -> tuple[ScenarioError, ...]:
    """What a run away from Grid'5000 could not do: E2Clab's monitoring and provenance, workers of an earlier version,
    models and data sets that hosts could not import, devices that torch here has no build for.

    ``elsewhere``: its hosts may have installed what this machine has not.
    """
    found, path = Findings(), scenario.path
    if scenario.trained is not None:
        found.errors += own_code.unresolved(scenario.trained, path, where=LAYERS_SERVICES, elsewhere=elsewhere)
        found.errors += devices.unavailable(scenario.trained, where=LAYERS_SERVICES, elsewhere=elsewhere)
    document = found.attempt(read, path / LAYERS_SERVICES)
    if document is not None:
        fields = found.attempt(Field(document=document, value=document.value).fields) or {}
        for name in MANAGERS:
            if name in fields:
                problem = "cannot be honoured here: E2Clab deploys it on its own testbeds only"
                found.errors.append(fields[name].error(problem, f"remove '{name}:', or use plain 'e2clab deploy'"))
    workflow = found.attempt(read, path / WORKFLOW)
    if workflow is not None:
        check_worker_is_there(workflow, found)
    return tuple(found.errors)


def known_services() -> frozenset[str]:
    """Names of the E2Clab services there are: this project's, those installed in E2Clab, and Default.

    E2Clab is looked up, not imported. Raises: InputError, if this project's are missing.
    """
    names = {file.stem for file in layers_services_dir().glob("*.py")} | {"Default"}
    e2clab = importlib.util.find_spec("e2clab")  # importing it is slow
    for root in (e2clab.submodule_search_locations or ()) if e2clab else ():
        names |= {file.stem for file in Path(root, "services", "plugins").glob("*.py")}
    return frozenset(name for name in names if not name.startswith("_"))


def links_of_strategy(training: Training, layers: Sequence[str]) -> Sequence[tuple[int, int]]:
    """The links that the strategy of ``training`` uses with its settings, where rank r is in ``layers[r]``.

    Raises: InputError, if there is no such strategy, or a setting is wrong.
    """
    return load_strategy(training.strategy)(**training.strategy_settings).used_links(layers)


def _scenario(
    path: Path,
    services: frozenset[str] | None,
    strategies: frozenset[str] | None,
    used_links: UsedLinks | None,
    found: Findings,
) -> Scenario | None:
    """The scenario, or None after noting why; a value that is returned beside notes is not to be used."""
    if not os.path.isdir(path):  # unlike Path.is_dir, no exception where nothing may be looked at
        found.errors.append(ScenarioError(str(path), "", "is not a folder", "name a folder, or write one: e2c-dl init"))
        return None
    documents = {name: _document(path, name, found) for name in FILES}  # all, so that each is said wrong at once
    layers_services = documents[LAYERS_SERVICES]
    known = known_services() if services is None else services
    layers = None if layers_services is None else read_layers(layers_services, known, found)
    names = frozenset(strategy_names()) if strategies is None else strategies
    training = None if layers is None or not layers.trainers else read_training(layers.trainers, names, found)
    links = _links(documents, layers, found)

    def used_pairs() -> list[Pair]:  # a function: the strategy is imported only if a link is drawn
        if training is None or layers is None:
            return []
        ranks = [host for host in layers.hosts if host.rank is not None]
        if used_links is None:
            pairs = links_of_strategy(training, [host.layer for host in ranks])
        else:
            pairs = used_links(training.strategy, len(ranks))
        return [(ranks[src].name, ranks[dst].name) for src, dst in pairs]

    hosts = None if layers is None else layers.hosts
    own_program = layers is not None and not layers.trainers
    iterations = 0 if own_program else None if training is None else training.iterations
    design = OtherFiles(folder=path, hosts=hosts, links=links, iterations=iterations, used_pairs=used_pairs)
    said = read_emulation(documents[EMULATION], design, found)
    if os.path.lexists(path / own_code.CODE):
        _check_code(path, documents[WORKFLOW], found)
    if training is not None and training.mathematics == SHAPES:
        _check_shapes(documents, said.compute.method, found)
    if own_program and (emulation := documents[EMULATION]) is not None:
        _check_own_program(Field(document=emulation, value=emulation.value), said, found)
    if found.errors or layers is None or links is None or (layers.trainers and training is None):
        return None
    scenario = Scenario(
        name=path.resolve().name,
        path=path,
        topology=Topology(hosts=layers.hosts, links=MappingProxyType(dict(said.links)), bottlenecks=said.bottlenecks),
        trained=None if training is None else replace(training, code=own_code.folder(path)),
        compute=said.compute,
        injected=said.injected,
        tcp=said.tcp,
        schedules=said.schedules,
        prices=said.prices,
        what_if=said.what_if,
        remarks=(*found.remarks, *remarks(path), *sweeps(documents[WORKFLOW], path)),
    )
    return _without(scenario, found)


def _without(scenario: Scenario, found: Findings) -> Scenario | None:
    """``scenario`` without the hosts that do not train; last, so that what was drawn stays where it was."""
    if not scenario.what_if.without:
        return scenario
    try:
        return training_without(scenario, scenario.what_if.without)
    except InputError as error:
        problem, _, remedy = str(error).rpartition("; ")
        found.errors.append(ScenarioError(EMULATION, "what_if.without", problem, remedy))
        return None


def _check_code(path: Path, workflow: Document | None, found: Findings) -> None:
    """Notes in ``found`` why the scenario's own code would not be where its hosts import it."""
    found.attempt(own_code.files, path)
    if workflow is not None:
        check_code_sent(workflow, found)


def _check_shapes(documents: Mapping[str, Document | None], method: str, found: Findings) -> None:
    """Notes in ``found`` what cannot be where hosts compute nothing."""
    emulation, workflow = documents[EMULATION], documents[WORKFLOW]
    if method == "quota" and emulation is not None:
        where = Field(document=emulation, value=emulation.value).required("compute").required("method")
        problem = f"a CPU quota slows what is computed, and with mathematics: {SHAPES} nothing is"
        found.errors.append(where.error(problem, "write auto or sleep: hosts are paced by their profile"))
    if workflow is not None:
        check_profile_sent(workflow, found)


def _check_own_program(emulation: Field, said: Emulation, found: Findings) -> None:
    """Notes in ``found`` what only e2c_dl's own workers could put in force: they tell time and iterations."""
    schedules, faults = said.schedules, said.injected.faults
    timed = {
        "schedules": schedules.links or schedules.bottlenecks or schedules.compute or schedules.thermal,
        "injected": faults,
    }
    for key, asked in timed.items():
        section = emulation.get(key)
        if asked and section is not None:
            where = section.get("faults") or section
            problem = "changes while training runs are put in force by workers of service Trainer, and there is none"
            found.errors.append(where.error(problem, "remove it, or train by Trainer"))
    compute = emulation.get("compute")
    if said.compute.method == "sleep" and compute is not None:
        problem = "only workers of service Trainer pace themselves, and there is none"
        found.errors.append(compute.required("method").error(problem, "write quota"))


def _document(path: Path, name: str, found: Findings) -> Document | None:
    """The file called ``name``; None after noting why, or, for an optional one, because it is not there."""
    if name in (WORKFLOW_ENV, EMULATION) and not os.path.lexists(path / name):
        return None
    return found.attempt(_read_own, path / name)


def _read_own(file: Path) -> Document:
    """Raises: ScenarioError, if it is not the scenario's own, or cannot be read."""
    check_own(file)
    return read(file)


def _links(
    documents: Mapping[str, Document | None], layers: Layers | None, found: Findings
) -> Mapping[Pair, Link] | None:
    """The links; None after noting errors. Checks the workflow's files on the way: they need the hosts alone."""
    hosts = None if layers is None else layers.hosts
    own = Findings()  # apart: links of a network.yaml with errors are not to be used
    network, workflow, workflow_env = documents[NETWORK], documents[WORKFLOW], documents[WORKFLOW_ENV]
    links = None if network is None else read_network(network, hosts, own)
    found.take(own)
    if workflow is not None:
        check_workflow(workflow, hosts, found)
        if names_traces(documents[EMULATION]):
            check_traces_sent(workflow, found)
    if workflow_env is not None:
        check_workflow_env(workflow_env, found)
    return None if own.errors else links
