"""The services of programs of the user's own: their hosts are prepared, and ``_self`` says who the others are.

Kept out of the service files, which E2Clab wants to import as plugins by path.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import enoslib as en

from e2c_dl.errors import TestbedError
from e2c_dl.resources import playbooks_dir
from e2c_dl.scenario.services import GPU_OF_SLOT
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.e2clab import trainer
from e2c_dl.testbeds.horovod import recipe, wheels
from e2c_dl.testbeds.own_programs import DIRECTORY_VARIABLE, IMAGE_VARIABLE, KEY, LOGINS, identity
from e2c_dl.testbeds.own_programs.containers import Container
from e2c_dl.testbeds.own_programs.wrappers import MASTER_PORT, Member, Place, port_of, recorded

MADE_HERE = ("local", "docker", "vagrant")
"""Testbeds whose hosts are made for a run."""


def prepare(hosts: Sequence[Any], metadata: Mapping[str, Any], *, horovod: bool = False) -> list[dict[str, Any]]:
    """Make ``hosts`` ready for a program of the user's; what each finds under ``_self``, in their order.

    ``metadata`` is the service's entry of layers_services.yaml. ``horovod``: it needs Horovod's wheel.
    Raises: TestbedError; enoslib.errors.EnosFailedHostsError if a host could not be prepared.
    """
    trainer.install(list(hosts))
    if horovod:
        _install_horovod(hosts)
    run_id = os.environ.get(registry.RUN_VARIABLE, "")
    told = [trainer.published(host) for host in hosts]
    places = [_place(one, told, metadata, run_id) for one in told]
    for host, place in zip(hosts, places, strict=True):
        request = base64.b64encode(
            json.dumps(recorded(place)).encode()
        ).decode()  # of JSON, Ansible makes something else
        host.set_extra(e2cdl_python=place.python, e2cdl_run_dir=place.run_dir, e2cdl_place=request)
    with _key(run_id) as key:
        image = os.environ.get(IMAGE_VARIABLE, "")
        _play("own_programs.yaml", hosts, e2cdl_key=str(key), e2cdl_image=image if Path(image).is_file() else "")
    more = {"backend": metadata.get("backend", "gloo")}
    return [_published(one, place) | more for one, place in zip(told, places, strict=True)]


def _published(told: Mapping[str, Any], place: Place) -> dict[str, Any]:
    addresses = {f"horovod{number}": member.address for number, member in enumerate(place.members, 1)}
    return {
        **told,
        **addresses,
        "url": place.address,
        "bin": place.bin,
        "environment": {
            **place.exported,
            "PATH": f"{place.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        },
        **({} if place.container is None else {"container_name": place.container.name}),
        "node_rank": place.node_rank,
        "nodes": len(place.members),
        "slots": place.slots,
        "master_address": place.members[0].address,
        "master_port": MASTER_PORT,
    }


def _place(
    told: Mapping[str, Any], service: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any], run_id: str
) -> Place:
    """``service``: what all hosts of the service are told, for plain E2Clab, which knows of no other hosts."""
    members = told.get("members") or [{"name": each["address"], "address": each["data_address"]} for each in service]
    marks = {DIRECTORY_VARIABLE: str(told["run_dir"]), registry.RUN_VARIABLE: run_id, **_wandb(metadata)}
    return Place(
        run_dir=told["run_dir"],
        python=told["python"],
        device=told["data_device"],
        address=told["data_address"],
        members=tuple(Member(**each) for each in members),
        port=port_of(run_id),
        slots=int(metadata.get("slots", 1)),
        traced=bool(metadata.get("trace")),
        gpu_of_slot=metadata.get("gpu") == GPU_OF_SLOT,
        of_controller={path: identity(path) for path in LOGINS},
        is_ours=bool(run_id) and registry.load(run_id).testbed in MADE_HERE,
        container=_container(told, metadata, run_id),
        environ={name: value for name, value in marks.items() if value},
    )


def _container(told: Mapping[str, Any], metadata: Mapping[str, Any], run_id: str) -> Container | None:
    if not metadata.get("docker"):
        return None
    given = os.environ.get(IMAGE_VARIABLE) or metadata.get("image") or None
    archive = f"{told['run_dir']}/image.tar" if given is not None and Path(given).is_file() else None
    return Container(
        name=f"e2cdl-{run_id or 'run'}-{told.get('host') or told['address']}",
        image=Path(given).stem if given is not None and archive else given,
        archive=archive,
        gpu=bool(metadata.get("gpu")),
        volumes=tuple(metadata.get("volumes") or ()),
    )


def _wandb(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Its mode; not its key, which would stand in files of hosts and in E2Clab's logs."""
    return {"WANDB_MODE": str(metadata["wandb_mode"])} if metadata.get("wandb_mode") else {}


def _install_horovod(hosts: Sequence[Any]) -> None:
    """Raises: InputError if this machine has no wheel for hosts that lack it."""
    pythons = {_python_of(host) for host in hosts}
    here = wheels.interpreter()
    shared = pythons == {here.path}
    wheel = "" if shared else str(wheels.existing(here, wheels.default_cache()))
    for host in hosts:
        host.set_extra(e2cdl_python=_python_of(host))
    _play(
        "horovod.yaml", hosts,
        e2cdl_horovod_wheel=wheel, e2cdl_horovod_version=recipe.VERSION, e2cdl_shared=shared,
    )  # fmt: skip


def _python_of(host: Any) -> str:
    return str(trainer.published(host)["python"])


@contextmanager
def _key(run_id: str) -> Iterator[Path]:
    """The private key of the run's hosts: in the run's directory, made once; without a run, gone when this is left."""
    if run_id:
        path = registry.run_directory(run_id) / KEY
        if not path.exists():
            _make_key(path)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="e2cdl-key-") as folder:
        path = Path(folder) / KEY
        _make_key(path)
        yield path


def _make_key(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "e2c-dl", "-f", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise TestbedError(f"ssh-keygen could not make the key of the run's hosts: {done.stderr.strip()}")


def _play(name: str, hosts: Sequence[Any], **variables: Any) -> None:
    en.run_ansible([str(playbooks_dir() / name)], roles=en.Roles({"all": list(hosts)}), extra_vars=variables)
