"""E2Clab service: hosts on which the workflow trains by ``torchrun``, which is told where the ranks meet.

``slots:`` is the number of ranks per host, ``backend:`` gloo or nccl; see docs/services.md.
"""

from e2clab.services import Service

from e2c_dl.testbeds.e2clab import own_programs, trainer


class TorchTraining(Service):
    """Hosts whose ``torchrun`` knows the others."""

    def deploy(self) -> None:
        """Prepare all hosts, then register them in the order of their addresses."""
        hosts = trainer.in_order(self.hosts)
        self.register_service(hosts=hosts, extra=own_programs.prepare(hosts, self.service_metadata))
