"""Services whose hosts train: how many hosts each needs, what must stand beside it, which keys its entry may have.

::

    Trainer                e2c_dl's own strategies; its ``env:`` says all of the training
    Horovod                a program of the user's, which the workflow starts by horovodrun
    TorchTraining          one that it starts by torchrun
    FLServer, FLClient     Flower's

Of a program of the user's neither model nor batches are known: its scenario has hosts that train, and no Training.
A host may run several ranks, one per slot: how many, the workflow's command line says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from e2c_dl.formatting import count
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import BOOLEAN, Key, Keys, Kind, integer, matching, one_of

TRAINER = "Trainer"
MAX_SLOTS = 64
GPU_OF_SLOT = "slot"
IMAGE = r"[A-Za-z0-9][\w.:/@-]*"
"""What a container's image may be called: no option of docker's, and one word."""


def _any_text(field: Field) -> str:
    """Text, empty too: published scenarios leave out their secrets so. Raises: ScenarioError."""
    return "" if field.value in (None, "") else field.text()


def _gpus(field: Field) -> bool | str:
    """Raises: ScenarioError."""
    if isinstance(field.value, bool) or field.value == GPU_OF_SLOT:
        return field.value
    raise field.error(f"{described(field.value)} gives no GPUs", f"write true, false or {GPU_OF_SLOT}")


def _secret(field: Field) -> str:
    """The same, of what no message may tell. Raises: ScenarioError."""
    if not isinstance(field.value, (str, type(None))):
        raise field.error("is no text", "put it in quotes, or write env:NAME or file:PATH")
    return _any_text(field)


def _matching(pattern: str, what: str, remedy: str) -> Kind[str]:
    """Text that ``pattern`` matches as a whole, or none."""
    told = matching(pattern, what, remedy)
    return Kind(read=lambda field: _any_text(field) and told.read(field), schema=_TEXT.schema)


def _no_trace(field: Field) -> bool:
    """False. Raises: ScenarioError if it is asked for."""
    if field.boolean():
        problem = "Flower's clients train each by itself, and no launcher says which rank each is"
        raise field.error(
            problem, "leave it out, and start clients by `e2c-dl trace` with E2CDL_RANK and E2CDL_WORLD_SIZE"
        )
    return False


_TEXT = Kind(read=_any_text, schema={"type": ["string", "null"]})
_SECRET = Kind(read=_secret, schema=_TEXT.schema)
_IMAGE = _matching(IMAGE, "image", "write one as docker does: registry.example/name:1.0")
_MODE = _matching(
    "online|offline|disabled|shared|run|dryrun", "mode of wandb", "write online, offline, disabled, shared or dryrun"
)
_VOLUME = r"/[^:]*:/[^:]*(:[a-zA-Z,]+)?"


def _volumes(field: Field) -> list[str]:
    """Raises: ScenarioError."""
    told = matching(_VOLUME, "volume", "write HOST:CONTAINER, two paths, such as /data:/data:ro")
    return [told.read(each) for each in field.items()]


_PROGRAM = Keys(
    docker=Key(BOOLEAN, "Start a container on each host, called what _self.container_name says.", default=False),
    image=Key(_IMAGE, "The container's image."),
    gpu=Key(BOOLEAN, "Give the container all GPUs.", default=False),
    registry_url=Key(_TEXT),
    registry_username=Key(_TEXT),
    registry_password=Key(_SECRET),
    wandb_api_key=Key(_SECRET),
    wandb_mode=Key(_MODE, "Of Weights & Biases: offline, and others of its own."),
    volumes=Key(Kind(read=_volumes, schema={"type": "array"}), "What of the host the container sees: /data:/data:ro."),
)
_RANKS = Keys(
    {
        **_PROGRAM,
        "gpu": Key(
            Kind(read=_gpus, schema={"enum": [True, False, GPU_OF_SLOT]}),
            "Give the container all GPUs; slot: and each rank, in a container or not, sees that of its slot alone.",
            default=False,
        ),
    },
    trace=Key(BOOLEAN, "Trace the ranks that the workflow starts by python, horovodrun or torchrun.", default=False),
)
_CLIENTS = Keys(**_PROGRAM, trace=Key(Kind(read=_no_trace, schema={"const": False})))


@dataclass(frozen=True, kw_only=True)
class Trains:
    """What a service that trains asks for."""

    least: int = 1  # hosts of it in the whole scenario
    beside: str | None = None  # a service that must be there, too
    keys: Keys = field(default_factory=Keys)  # beside those of any service


TRAINING: Mapping[str, Trains] = {
    TRAINER: Trains(least=2),
    "Horovod": Trains(keys=_RANKS),
    "TorchTraining": Trains(
        keys=Keys(
            **_RANKS,
            slots=Key(integer(1, MAX_SLOTS), "Ranks of each host.", default=1),
            backend=Key(one_of(("gloo", "nccl")), "Of torch's collectives.", default="gloo"),
        )
    ),
    "FLServer": Trains(beside="FLClient", keys=_CLIENTS),
    "FLClient": Trains(beside="FLServer", keys=_CLIENTS),
}


def check_trains(layers: Field, hosts: Mapping[str, int]) -> None:
    """Does nothing. ``hosts``: service -> its hosts. Raises: ScenarioError if they make no training, or two."""
    trained = [name for name in TRAINING if hosts.get(name)]
    if not trained:
        names = ", ".join(TRAINING)
        raise layers.error(
            "no service of it trains", f"ask for one of {names}, such as {{name: {TRAINER}, quantity: 2}}"
        )
    for name in trained:
        needs = TRAINING[name]
        if hosts[name] < needs.least:
            remedy = f"ask for at least {needs.least}, such as {{name: {name}, quantity: {needs.least}}}"
            raise layers.error(f"{count(hosts[name], 'host')} of service {name}", remedy)
        if needs.beside is not None and not hosts.get(needs.beside):
            raise layers.error(
                f"service {name} trains with {needs.beside}, of which there is none", f"add {needs.beside}"
            )
        others = [other for other in trained if other not in (name, needs.beside)]
        if others:
            raise layers.error(f"services {name} and {others[0]}: two trainings in one scenario", "keep one of them")


def check_keys(name: str, entry: Field, known: tuple[str, ...], found: Findings) -> None:
    """Notes in ``found`` what is wrong with the keys of ``entry``, a service called ``name``."""
    if name in TRAINING:  # others read keys of their own from their entry
        own = TRAINING[name].keys
        for key, value in entry.keys(found, known=(*known, *own)).items():
            if key in own:
                found.attempt(own[key].kind.read, value)
