"""A rank of Horovod over gloo: some iterations of a small model; spans and sockets are recorded.

``python -m benchmarks.flows.horovod ITERATIONS PARAMETERS``, with torchrun's environment, HOST and HOST_DIR. Rank 0
starts the rendezvous that horovodrun would, and tells the others its port at MASTER_PORT.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

import torch

from benchmarks.flows.recorded import trained

REACHED_WITHIN_S = 60.0


def main(iterations: int, parameters: int) -> None:
    """Train, and leave what was recorded in HOST_DIR."""
    meet(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    import horovod.torch as hvd  # reads the environment that meet has set

    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    side = int(parameters**0.5)
    model = torch.nn.Sequential(torch.nn.Linear(side, side, bias=False))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    trained(model, optimizer, iterations, lambda: hvd.allreduce(torch.zeros(1)))
    hvd.shutdown()


def meet(rank: int, size: int) -> None:
    """Serve, or wait for, the rendezvous; set what Horovod reads."""
    address, meeting = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
        from horovod.runner.http.http_server import RendezvousServer

        server = RendezvousServer(verbose=False)
        port = server.start()  # wherever it finds room
        server.init(get_host_assignments(parse_hosts(",".join(f"h{number}:1" for number in range(size))), size))
        threading.Thread(target=_tell, args=((address, meeting), port, size - 1), daemon=True).start()
    else:
        port = _told((address, meeting))
    slots = {"RANK": rank, "SIZE": size, "LOCAL_RANK": 0, "LOCAL_SIZE": 1, "CROSS_RANK": rank, "CROSS_SIZE": size}
    os.environ.update({f"HOROVOD_{name}": str(value) for name, value in slots.items()})
    os.environ.update({
        "HOROVOD_HOSTNAME": f"h{rank}", "HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": os.environ["GLOO_SOCKET_IFNAME"], "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
    })  # fmt: skip


def _tell(at: tuple[str, int], port: int, others: int) -> None:
    with socket.create_server(at) as server:
        for _ in range(others):
            asking, _ = server.accept()
            with asking:
                asking.sendall(str(port).encode())


def _told(at: tuple[str, int]) -> int:
    """The port of the rendezvous, from rank 0, which may still be starting."""
    deadline_s = time.monotonic() + REACHED_WITHIN_S
    while True:
        try:
            with socket.create_connection(at, timeout=5) as asking:
                return int(asking.makefile().read())
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
