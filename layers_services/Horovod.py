"""E2Clab service: hosts on which the workflow trains by ``horovodrun``.

Under ``_self`` it publishes ``horovod1``, ``horovod2`` ... (the addresses of all hosts that train, in rank order),
``url`` (the host's own), ``bin`` and ``environment``, beside what Trainer does; see docs/services.md.
"""

from e2clab.services import Service

from e2c_dl.testbeds.e2clab import own_programs, trainer


class Horovod(Service):
    """Hosts with Horovod, and a way from each to the others that is gone when the run is."""

    def deploy(self) -> None:
        """Prepare all hosts, then register them in the order of their addresses."""
        hosts = trainer.in_order(self.hosts)
        self.register_service(hosts=hosts, extra=own_programs.prepare(hosts, self.service_metadata, horovod=True))
