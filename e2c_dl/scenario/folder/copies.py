"""Copies of scenarios: the commented one for newcomers, and one for each run, with other injected departures if asked.

Beside the newcomers' stands the JSON Schema of ``emulation.yaml``: an editor that knows YAML schemas finds it by the
first line of that file, without a network.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.redaction import Redactor
from e2c_dl.resources import experiments_dir, template_dir
from e2c_dl.scenario.bandwidth_traces import files
from e2c_dl.scenario.documents.document import MAX_BYTES, read
from e2c_dl.scenario.emulation.file import schema
from e2c_dl.scenario.folder import own_code
from e2c_dl.scenario.folder.own_files import check_own, copy
from e2c_dl.scenario.folder.secret_values import CODE, hidden, text_of
from e2c_dl.scenario.load import EMULATION, FILES, LAYERS_SERVICES, WORKFLOW
from e2c_dl.scenario.services import TRAINER
from e2c_dl.scenario.what_if import Changed
from e2c_dl.scenario.workflow import PROFILE, sent_places

SCHEMA = "emulation.schema.json"


def init(dst: Path) -> tuple[Path, ...]:
    """Writes the commented scenario for newcomers to the folder ``dst`` and returns its files.

    Raises: InputError, if a file of it is there already (nothing is overwritten) or ``dst`` cannot be written.
    """
    sources = {dst / file.name: file for file in sorted(template_dir().iterdir()) if file.suffix == ".yaml"}
    for path in (*sources, dst / SCHEMA):
        if os.path.lexists(path):
            raise InputError(f"{path} is there already and is not overwritten; name a new folder")
    made, written = not dst.exists(), []  # what a failure takes back: no more than was made here
    try:
        texts = {path: source.read_text(encoding="utf-8") for path, source in sources.items()}
        texts[dst / SCHEMA] = json.dumps(schema(), indent=1) + "\n"
        dst.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            # "x": also what appeared since the look above is not overwritten.
            with path.open("x", encoding="utf-8") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        for path in written:  # half a scenario helps nobody
            path.unlink()
        if made and dst.is_dir():
            dst.rmdir()
        raise InputError(f"{dst} cannot be written: {error.strerror}; name another folder") from error
    return tuple(texts)


def examples() -> tuple[str, ...]:
    """Names of the experiments that :func:`example` copies."""
    return tuple(sorted(place.name for place in experiments_dir().iterdir() if (place / LAYERS_SERVICES).is_file()))


def example(name: str, dst: Path) -> tuple[Path, ...]:
    """Writes a copy of the experiment ``name``, with its profile, to the new or empty folder ``dst``; its files.

    Raises: InputError: no such experiment, or ``dst`` is in use or cannot be written.
    """
    if name not in examples():
        close = get_close_matches(name, examples(), n=1) or examples()
        raise InputError(f"experiment {name!r} is not there; write {' or '.join(close)}")
    src = experiments_dir() / name
    _copied(src, dst, {})
    if (src / PROFILE).is_file():
        copy(src / PROFILE, dst / PROFILE)
    return tuple(sorted(file for file in dst.rglob("*") if file.is_file()))


def overridden(
    src: Path, dst: Path, seed: int | None = None, healthy: bool = False, *, redactor: Redactor | None = None
) -> None:
    """Writes a copy of the scenario in the folder ``src`` to the folder ``dst``, which is made if need be.

    Copied are the five files of a scenario, other small regular ``*.yaml`` files beside them, what may be a trace in
    its folder ``traces``, and its own ``code``. ``seed`` replaces the seed by which departures are injected (not the
    one of the training), ``healthy`` takes all of them out; then ``emulation.yaml`` is written anew and says so. With
    a ``redactor`` no secret is in the copy: neither those it knows nor what looks like one.

    Raises: ScenarioError, if a seed is given and nothing is injected, emulation.yaml cannot be read, or a link leads
    out of the scenario; InputError, if both are given, or ``dst`` is in use or cannot be written.
    """
    if seed is not None and healthy:
        raise InputError("a seed places injected departures, and healthy takes them out; ask for one of the two")
    emulation = _rewritten(src / EMULATION, seed) if seed is not None or healthy else None
    texts = {} if emulation is None else {EMULATION: emulation}
    _copied(src, dst, texts if redactor is None else _hidden(src, texts, redactor))


def check_seed(src: Path, seed: int | None) -> None:
    """Does nothing. Raises: ScenarioError, if there is nothing in ``src`` that ``seed`` could place anew."""
    if seed is not None:
        _rewritten(src / EMULATION, seed)


def parts(src: Path) -> tuple[Path, ...]:
    """The files that the scenario in ``src`` is made of, its profile among them, if it has one.

    Raises: ScenarioError, if one is a link that leads out of it, or its own code is too large.
    """
    documents = [file for file in sorted(src.iterdir()) if _belongs(file) or file.name == PROFILE]
    for file in documents:
        check_own(file)
    return (*documents, *files(src), *own_code.files(src))


def _hidden(src: Path, texts: Mapping[str, str], redactor: Redactor) -> dict[str, str]:
    """The text of every file of ``src`` that is to be copied, by its name there, without secrets."""
    some = (*filter(_belongs, src.iterdir()), *own_code.files(src))
    found = {str(file.relative_to(src)): text_of(file) for file in some} | dict(texts)
    return {name: hidden(text, redactor, code=name.endswith(CODE)) for name, text in found.items() if text}


def _copied(src: Path, dst: Path, texts: Mapping[str, str]) -> None:
    """Copies ``src`` to ``dst`` with other ``texts`` in the files of these names. Raises: as :func:`overridden`."""
    try:
        dst.mkdir(parents=True, exist_ok=True)
        if any(dst.iterdir()):  # what lay there would become part of the scenario
            raise InputError(f"{dst} is not empty; choose another folder")
        for file in filter(_belongs, sorted(src.iterdir())):  # not all that lies there: archives and data sets do, too
            check_own(file)
            copy(file, dst / file.name, texts.get(file.name))
        for name in texts.keys() - {str(file.relative_to(src)) for file in (*src.iterdir(), *own_code.files(src))}:
            (dst / name).write_text(texts[name], encoding="utf-8")
        for file in (*files(src), *own_code.files(src), *_sent(src)):
            target = dst / file.relative_to(src)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy(file, target, texts.get(str(file.relative_to(src))))
    except OSError as error:
        raise InputError(f"{src} cannot be copied to {dst}: {error.strerror}; choose another folder") from error


def changed(src: Path, dst: Path, what_if: Changed, env: Mapping[str, Any]) -> None:
    """Writes a copy of the scenario in ``src`` to ``dst``, with ``what_if`` in place of the what-if that it had.

    The keys of ``env`` are these in its Trainers' ``env:``.

    Its profile goes along, if it has one. Raises: as :func:`overridden`.
    """
    kept = {key: inner for key, inner in _mapping(src / EMULATION).items() if key != "what_if"}
    text = _written({**kept, "what_if": what_if.to_yaml()} if what_if else kept, "what_if as asked")
    _copied(src, dst, {EMULATION: text, **({LAYERS_SERVICES: _with_env(src, env)} if env else {})})
    if (src / PROFILE).is_file():
        copy(src / PROFILE, dst / PROFILE)


def retrained(src: Path, dst: Path, env: Mapping[str, Any], without: Collection[str] = ()) -> None:
    """Writes a copy of the scenario in ``src`` to ``dst``, in whose Trainers' ``env:`` the keys of ``env`` are these.

    Keys in ``without`` go.

    Its profile goes along, if it has one. Raises: as :func:`overridden`.
    """
    _copied(src, dst, {LAYERS_SERVICES: _with_env(src, env, without)})
    if (src / PROFILE).is_file():
        copy(src / PROFILE, dst / PROFILE)


def _with_env(src: Path, env: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """The text of ``layers_services.yaml`` of ``src`` with ``env`` in its Trainers' ``env:``, and ``without`` those."""
    value = _mapping(src / LAYERS_SERVICES)
    services = [service for layer in value.get("layers", ()) for service in layer.get("services", ())]
    for service in services:
        if service.get("name") == TRAINER:
            kept = {key: said for key, said in service.get("env", {}).items() if key not in without}
            service["env"] = {**kept, **env}
    how = ", ".join(f"{key} {said}" for key, said in env.items() if said)
    return _written(value, how, LAYERS_SERVICES)


def _mapping(file: Path) -> dict[str, Any]:
    """What the file of YAML holds; nothing, if it is not there. Raises: ScenarioError."""
    value = read(file).value if os.path.lexists(file) else {}
    return value if isinstance(value, dict) else {}


def _written(value: Mapping[str, Any], how: str, file: str = EMULATION) -> str:
    # Written anew as YAML, so comments go; the archive has the original command.
    return f"# Written by e2c-dl from the scenario's {file}: {how}.\n{yaml.safe_dump(dict(value), sort_keys=False)}"


def _rewritten(file: Path, seed: int | None) -> str | None:
    """``emulation.yaml`` with another injected seed, or without ``injected:`` if that is None.

    None if there is nothing to take out. Raises: ScenarioError.
    """
    value = read(file).value if os.path.lexists(file) else {}
    injected = value.get("injected") if isinstance(value, dict) else None
    if not isinstance(value, dict) or (seed is not None and not isinstance(injected, dict)):
        raise ScenarioError(file.name, "injected", "is missing, so a seed has nothing to place", "add it, or no seed")
    if seed is None and "injected" not in value:
        return None
    kept = {key: inner for key, inner in value.items() if key != "injected"}
    if isinstance(injected, dict) and seed is not None:
        kept["injected"] = {**injected, "seed": seed}
        how = f"seed {seed} instead of the scenario's"
    else:
        how = "everything injected taken out"
    return _written(kept, how)


def _belongs(file: Path) -> bool:
    """Whether a file of a scenario's folder is part of the scenario."""
    if file.name in FILES:
        return True
    return file.suffix == ".yaml" and stat.S_ISREG((entry := file.lstat()).st_mode) and entry.st_size <= MAX_BYTES


def _sent(src: Path) -> tuple[Path, ...]:
    """Files of the scenario in ``src`` that its workflow sends to hosts, beside those that every copy has.

    Raises: ScenarioError, if one leads out of it, or they are too large together.
    """
    if not (src / WORKFLOW).is_file():
        return ()
    found: list[Path] = []
    for place in sent_places(read(src / WORKFLOW)):
        if ".." in Path(place).parts:
            continue
        for path in sorted(src.glob(place)):  # what is not there, its task misses by name
            inside = sorted(path.rglob("*")) if path.is_dir() and not path.is_symlink() else [path]
            found += [file for file in inside if file.is_file()]
    for file in found:
        check_own(file)
    size = sum(file.stat().st_size for file in found)
    if size > own_code.MAX_BYTES:
        what = (
            f"names {size >> 20} MiB below scenario_dir, and at most {own_code.MAX_BYTES >> 20} MiB go into an archive"
        )
        raise ScenarioError(WORKFLOW, "", what, "move them to the folder of artifacts: {{ artifacts_dir }}")
    own = {src / PROFILE, *parts(src)}
    return tuple(file for file in dict.fromkeys(found) if file not in own)
