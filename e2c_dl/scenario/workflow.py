"""``workflow.yaml`` and ``workflow_env.yaml``: checked only, E2Clab and Ansible carry them out.

A play is Ansible's, with E2Clab's ``prepare``, ``launch``, ``finalize`` (lists of tasks) and ``depends_on``. A play
whose ``hosts`` matches nothing would be skipped without a word, and a misspelt ``launch`` never run: both are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from e2c_dl.scenario.bandwidth_traces import FOLDER
from e2c_dl.scenario.documents.document import Document
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import one_of
from e2c_dl.scenario.documents.patterns import select
from e2c_dl.scenario.folder.own_code import CODE
from e2c_dl.topology import Host

STEPS = ("prepare", "launch", "finalize")
PROFILE = "profile.json"
"""The compute profile that may be stored with a scenario, beside its other files."""

# Ansible's play keywords, but for tasks, which E2Clab replaces by the step's.
_ANSIBLE = (
    "any_errors_fatal", "become", "become_exe", "become_flags", "become_method", "become_user", "check_mode",
    "collections", "connection", "debugger", "diff", "environment", "fact_path", "force_handlers", "gather_facts",
    "gather_subset", "gather_timeout", "handlers", "ignore_errors", "ignore_unreachable", "max_fail_percentage",
    "module_defaults", "name", "no_log", "order", "port", "post_tasks", "pre_tasks", "remote_user", "roles",
    "run_once", "serial", "strategy", "tags", "throttle", "timeout", "vars", "vars_files", "vars_prompt",
)  # fmt: skip
_PLAY = ("hosts", *STEPS, "depends_on", *_ANSIBLE)
_WORKER_BEFORE = "e2c_dl.host"  # in workflows that were written by 0.1's first scenarios
_OF_SCENARIO = re.compile(r"\{\{\s*scenario_dir\s*\}\}/((?:[\w./@+-]|\{\{[^{}\n]*\}\})+)")
_VARIABLE = re.compile(r"\{\{[^{}\n]*\}\}")
_NAMES = re.compile(r"loop|with_\w+|vars")
_OF_DEPENDS_ON = {
    "grouping": one_of(("round_robin", "asarray", "aggregate", "address_match")).read,
    "prefix": Field.text,
    "array_info": one_of(("id", "hostname", "g5k_ipv6_hostname")).read,
}


def check_workflow(document: Document, hosts: Sequence[Host] | None, found: Findings) -> None:
    """Notes in ``found`` what is wrong; patterns are checked against ``hosts`` unless they could not be read."""
    for play in found.attempt(Field(document=document, value=document.value).items) or []:
        fields = play.keys(found, known=(*_PLAY, "tasks"), required=["hosts"])
        if "tasks" in fields:  # Ansible knows it, so it would be thought to run
            problem = "tasks of a play are replaced by those of E2Clab's steps"
            found.errors.append(fields["tasks"].error(problem, f"move them to one of {', '.join(STEPS)}"))
        if "hosts" in fields:
            _check_pattern(fields["hosts"], hosts, found)
        for step in STEPS:
            if step in fields:
                found.attempt(_check_tasks, fields[step])
        if "depends_on" in fields:
            for link in found.attempt(fields["depends_on"].items) or []:
                _check_depends_on(link, hosts, found)


def check_traces_sent(document: Document, found: Findings) -> None:
    """Notes in ``found`` a workflow that sends a scenario's YAML files to the hosts, and its traces not.

    To be asked where ``emulation.yaml`` names traces: hosts play them.
    """
    _check_sent(document, found, rf"\b{FOLDER}\b", f"the folder {FOLDER}, of which emulation.yaml names files")


def check_profile_sent(document: Document, found: Findings) -> None:
    """Notes in ``found`` a workflow that sends a scenario's YAML files to the hosts, and its profile not.

    To be asked where hosts compute by it alone.
    """
    what = f"{PROFILE}, by which they compute with mathematics: shapes"
    _check_sent(document, found, re.escape(PROFILE), what)


def check_code_sent(document: Document, found: Findings) -> None:
    """Notes in ``found`` a workflow that sends a scenario's YAML files to the hosts, and its own code not.

    To be asked where the scenario has some.
    """
    _check_sent(document, found, rf"\b{CODE}\b", f"the folder {CODE}, of which they import")


def _check_sent(document: Document, found: Findings, pattern: str, what: str) -> None:
    texts = list(_texts(document.value))
    # Looked for in the text: any module of Ansible may copy.
    if any("/*.yaml" in text for text in texts) and not any(re.search(pattern, text) for text in texts):
        problem = f"sends *.yaml to the hosts, and not {what}"
        remedy = "add the task of 'e2c-dl init' that sends it"
        found.errors.append(Field(document=document, value=document.value).error(problem, remedy))


def check_worker_is_there(document: Document, found: Findings) -> None:
    """Notes in ``found`` a workflow that starts workers by a module that is gone: hosts would only say that it is.

    To be asked before it is run: archives of earlier runs hold such workflows, and are read.
    """
    if any(_WORKER_BEFORE in text for text in _texts(document.value)):
        remedy = "copy workflow.yaml of 'e2c-dl init', or write e2c_dl.drivers.live"
        problem = f"starts workers by {_WORKER_BEFORE}, which is there no more"
        found.errors.append(Field(document=document, value=document.value).error(problem, remedy))


def sent_places(document: Document) -> tuple[str, ...]:
    """What the workflow's tasks name below ``{{ scenario_dir }}``, as far as it is spelled out: ``vars/vars.yaml``.

    A variable that is a part of a name is ``*``, for :meth:`Path.glob`; one that is a whole name, such as
    ``{{ item }}``, is each of the texts in loops and ``vars``.
    """
    names = [text.strip("/") for value in _below(document.value, _NAMES) for text in _texts(value)]
    places = set()
    for text in _texts(document.value):
        for match in _OF_SCENARIO.finditer(text):
            place = _VARIABLE.sub("*", match[1]).strip("/")
            whole = "*" in place.split("/")
            places |= {place.replace("*", name) for name in names if name.strip(".")} if whole else {place}
    return tuple(sorted(places - {""}))


def uses_variable(document: Document, name: str, step: str | None = None) -> bool:
    """Whether a task of the workflow, or of one ``step``, needs the variable ``name``: names it, without a default."""
    rest = r"(?:(?!\bdefault\b|\bdefined\b)[^}])*"
    template = re.compile(rf"{{[{{%]{rest}\b{re.escape(name)}\b{rest}[}}]")
    value = document.value
    if step is not None:
        value = [play.get(step) for play in value if isinstance(play, dict)] if isinstance(value, list) else []
    return any(template.search(text) for text in _texts(value))


def _below(value: object, key: re.Pattern[str]) -> Iterator[object]:
    """What stands at keys of this form, at any depth."""
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _below(inner, key)
    if isinstance(value, dict):
        yield from (inner for name, inner in value.items() if key.fullmatch(str(name)))


def _texts(value: object) -> Iterator[str]:
    """Every text in ``value``."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def check_workflow_env(document: Document, found: Findings) -> None:
    """Notes in ``found`` what is wrong: per application configuration, names with text, numbers or booleans."""
    for conf in (found.attempt(Field(document=document, value=document.value).fields) or {}).values():
        for variable in (found.attempt(conf.fields) or {}).values():
            if not isinstance(variable.value, (str, int, float, bool)):
                what = f"expected text, a number or true or false, not {described(variable.value)}"
                found.errors.append(variable.error(what, "put it in quotes, or remove it"))


def _check_pattern(field: Field, hosts: Sequence[Host] | None, found: Findings) -> None:
    if hosts is None:  # layers_services.yaml is wrong: what is said of hosts now would be wrong as well
        found.attempt(field.text)
    else:
        found.attempt(select, field, hosts)


def _check_tasks(field: Field) -> None:
    for task in field.items():
        task.fields()  # mappings is all that is asked: the modules are Ansible's, and may be anybody's


def _check_depends_on(link: Field, hosts: Sequence[Host] | None, found: Findings) -> None:
    known = ("service_selector", *_OF_DEPENDS_ON)
    fields = link.keys(found, known=known, required=known[:-1])
    if "service_selector" in fields:
        _check_pattern(fields["service_selector"], hosts, found)
    for key, check in _OF_DEPENDS_ON.items():
        if key in fields:
            found.attempt(check, fields[key])
