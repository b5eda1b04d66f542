"""E2Clab service: one training worker per host.

Its ``env:`` says how to train (see experiments/first-light). Under ``_self`` it publishes, beside E2Clab's own entries:
``python`` and ``run_dir`` on the host, and the address and device that training uses (``data_address``,
``data_device``).
"""

from e2clab.services import Service

from e2c_dl.testbeds.e2clab import trainer


class Trainer(Service):
    """Hosts that train: e2c_dl is installed, and every worker's address is known to the workflow."""

    def deploy(self) -> None:
        """Install on all hosts, then register them in the order of their addresses."""
        hosts = trainer.in_order(self.hosts)
        trainer.install(hosts)
        self.register_service(hosts=hosts, extra=[trainer.published(host) for host in hosts])
