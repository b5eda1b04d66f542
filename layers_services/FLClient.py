"""E2Clab service: hosts of Flower's clients.

``_self.url`` is its address in the network that training uses: clients connect to ``{{ server.url }}:8080``. See
docs/services.md.
"""

from e2clab.services import Service

from e2c_dl.testbeds.e2clab import own_programs, trainer


class FLClient(Service):
    """Hosts of Flower's clients: the workflow starts it."""

    def deploy(self) -> None:
        """Prepare all hosts, then register them in the order of their addresses."""
        hosts = trainer.in_order(self.hosts)
        self.register_service(hosts=hosts, extra=own_programs.prepare(hosts, self.service_metadata))
