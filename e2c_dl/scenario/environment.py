"""The parts of ``layers_services.yaml`` that are E2Clab's alone: where hosts come from, and its monitoring.

Accepts what the schemas of E2Clab 3.7 accept, but for keys that they do not name (E2Clab ignores those without a word).
Environments other than Grid'5000 are remarked on: see :mod:`e2c_dl.scenario.elsewhere`. ``e2clab`` is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime

from e2c_dl.scenario.documents.document import Document
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import matching, one_of
from e2c_dl.scenario.elsewhere import ELSEWHERE, Checks, remark
from e2c_dl.scenario.walltime import read_walltime

G5K = "g5k"
OTHER_ENVIRONMENTS = tuple(ELSEWHERE)


def check_environment(environment: Field, found: Findings) -> None:
    """Notes in ``found`` what is wrong with ``environment:``."""
    fields = found.attempt(environment.fields) or {}
    checks = {"job_name": _job_name, "walltime": read_walltime, "cluster": Field.text, G5K: Field.fields}
    _check(environment, found, {**checks, **dict.fromkeys(OTHER_ENVIRONMENTS, Field.fields)})
    if G5K in fields:
        _check(fields[G5K], found, _G5K_CHECKS)
        found.attempt(_check_deploy, fields[G5K])
    others = [name for name in OTHER_ENVIRONMENTS if name in fields]
    for name in others:
        _check(fields[name], found, {"job_name": _job_name, "walltime": read_walltime, **ELSEWHERE[name].keys})
        found.remarks.append(remark(fields[name], name))
    if fields and not others and G5K not in fields:
        found.errors.append(environment.error(f"key '{G5K}' is missing", "add 'g5k: {cluster: paradoxe}'"))


def environment_key(layers: Document) -> str:
    """The section of ``environment:`` for which other hosts stand in: Grid'5000's, or the only other one.

    ``layers``: layers_services.yaml. To be asked before a run. Raises: ScenarioError, if there are several.
    """
    environment = Field(document=layers, value=layers.value).required("environment")
    (first, *others) = [key for key in (G5K, *OTHER_ENVIRONMENTS) if environment.get(key) is not None] or [G5K]
    if others:
        problem = f"{first} and {others[0]}: hosts here can stand in for those of one environment, not of two"
        raise environment.error(problem, f"remove '{others[0]}:', or deploy it by `e2clab deploy`")
    return first


def check_service(field: Field, environment: Field | None) -> None:
    """Nothing, if the ``environment:`` of a service is a section of the scenario's. Raises: ScenarioError."""
    known = (G5K, *OTHER_ENVIRONMENTS)
    name = one_of(known).read(field)
    if environment is not None and environment.get(name) is None:
        raise field.error(f"environment: has no section {name}", f"add '{name}:' there, or write another")


def check_manager(name: str, manager: Field, found: Findings) -> None:
    """Notes in ``found`` what is wrong with one of E2Clab's managers, such as ``monitoring:``."""
    checks, required, together = MANAGERS[name]
    _check(manager, found, checks, required)
    if together is not None:
        found.attempt(together, manager)


def named(environment: Field, key: str) -> Field | None:
    """The value of ``key`` as E2Clab takes it: from ``g5k:`` if there, else from ``environment:`` itself."""
    g5k = environment.get(G5K)
    return (g5k.get(key) if g5k else None) or environment.get(key)


def texts(field: Field) -> tuple[str, ...]:
    """The texts in this list. Raises: ScenarioError."""
    return tuple(item.text() for item in field.items())


def _check(field: Field, found: Findings, checks: Checks, required: Iterable[str] = ()) -> None:
    for key, inner in field.keys(found, known=checks, required=required).items():
        if key in checks:  # unknown ones are noted already
            found.attempt(checks[key], inner)


def _number_of(*choices: int) -> Callable[[Field], float]:
    return lambda field: field.number(lambda value: value in choices, f"out of {', '.join(map(str, choices))}")


_JOB_NAME_REMEDY = "write up to 63 letters, digits, dots, '-' or '_'"
_PROJECT_REMEDY = "write its name in the words of Grid'5000's user management, such as myriads"
RESERVATION = "%Y-%m-%d %H:%M:%S"
"""When jobs shall begin, as OAR reads it: in the time of Paris."""
_RESERVATION_REMEDY = 'write it as "YYYY-mm-dd HH:MM:SS", in quotes'  # unquoted, YAML makes it a date
_job_name = matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", "job name", _JOB_NAME_REMEDY).read
_ipv = _number_of(4, 6)
_step = one_of(("prepare", "launch", "finalize")).read


def _each(checks: Checks, required: Iterable[str]) -> Callable[[Field], None]:
    """A check of every mapping in a list. Raises: ScenarioError, the first of what is wrong."""

    def check_all(field: Field) -> None:
        for item in field.items():
            found = Findings()
            _check(item, found, checks, required)
            found.check()

    return check_all


def _check_deploy(g5k: Field) -> None:
    job_type = g5k.get("job_type")
    if job_type is not None and not isinstance(job_type.value, list):
        return  # that is noted already
    if g5k.get("env_name") and (job_type is None or "deploy" not in texts(job_type)):
        raise (job_type or g5k).error("env_name needs a job of type deploy", "write job_type: [deploy]")


def _check_monitoring(manager: Field) -> None:
    if manager.required("type").value != "dstat":
        provider = manager.required("provider")
        if provider.value == G5K and not (manager.get("cluster") or manager.get("servers")):
            raise manager.error("names neither cluster nor servers", "add cluster, the one to put its server on")


def _check_provenance(manager: Field) -> None:
    if bool(manager.get("cluster")) == bool(manager.get("servers")):
        raise manager.error("names neither or both of cluster and servers", "keep one of them")


def _check_kwollect(manager: Field) -> None:
    start, end = manager.get("start"), manager.get("end")
    if manager.get("step") and (start or end):
        raise manager.error("step excludes start and end", "keep step, or start and end")
    if end and not start:
        raise manager.error("end needs start", "add start")


_FIREWALL_RULE: Checks = {"services": Field.items, "ports": Field.items, "proto": one_of(("tcp+udp", "all")).read}
_PROFILE: Checks = {
    "name": Field.text,
    "archi": one_of(("a8", "m3", "custom")).read,
    **dict.fromkeys(("current", "power", "voltage"), Field.boolean),
    "period": _number_of(140, 204, 332, 588, 1100, 2116, 4156, 8244),
    "average": _number_of(1, 4, 16, 64, 128, 256, 512, 1024),
}


def _reservation(field: Field) -> str:
    text = field.text() if not isinstance(field.value, date) else ""
    try:
        when = datetime.strptime(text, RESERVATION)  # noqa: DTZ007 - any zone: it is only asked whether there is such a day
        if when.strftime(RESERVATION) == text:  # 2027-1-1 is read, too, and E2Clab wants 2027-01-01
            return text
    except ValueError:
        pass
    raise field.error(f"{described(field.value)} is no date and time", _RESERVATION_REMEDY)


def _no_gpus(field: Field) -> None:
    """Raises: ScenarioError, always."""
    problem = "Grid'5000 reserves whole nodes, and E2Clab passes this over"
    raise field.error(problem, "remove it, and name a cluster whose nodes have GPUs, such as chifflot")


_G5K_CHECKS: Checks = {
    **dict.fromkeys(("gpu", "gpus"), _no_gpus),
    "job_name": _job_name,
    "walltime": read_walltime,
    "queue": one_of(("default", "production", "besteffort", "testing")).read,
    "reservation": _reservation,
    "job_type": texts,
    "env_name": Field.text,
    "cluster": Field.text,
    "key_name": Field.text,
    "firewall_rules": _each(_FIREWALL_RULE, ["services"]),
    "monitor": Field.text,
    "project": matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", "project", _PROJECT_REMEDY).read,  # E2Clab passes it over
    "ipv6": Field.boolean,
}

_MONITORING: Checks = {
    "type": one_of(("dstat", "tpg", "tig")).read,
    "provider": one_of((G5K, "chameleoncloud")).read,
    "cluster": Field.text,
    "servers": Field.items,
    "network": one_of(("shared", "private")).read,
    "agent_conf": Field.text,
    "options": Field.text,
    "ipv": _ipv,
}
_PROVENANCE: Checks = {
    "provider": one_of((G5K, *OTHER_ENVIRONMENTS)).read,
    "cluster": Field.text,
    "servers": texts,
    "dataflow_spec": Field.text,
    "ipv": _ipv,
    "parallelism": lambda field: field.number(lambda _: True, "of any size"),
}
_KWOLLECT: Checks = {"metrics": texts, "step": _step, "start": _step, "end": _step}

MANAGERS: Mapping[str, tuple[Checks, tuple[str, ...], Callable[[Field], None] | None]] = {
    "monitoring": (_MONITORING, ("type",), _check_monitoring),
    "provenance": (_PROVENANCE, ("provider", "dataflow_spec"), _check_provenance),
    "monitoring_iotlab": ({"profiles": _each(_PROFILE, ["name", "archi"])}, ("profiles",), None),
    "kwollect": (_KWOLLECT, ("metrics",), _check_kwollect),
}
"""E2Clab's managers by their key in layers_services.yaml: checks of their keys, those they need, what fits together."""
