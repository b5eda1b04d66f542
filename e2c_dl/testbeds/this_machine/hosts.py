"""The hosts of one run on this machine, whatever they are: brought up whole or not at all, and released."""

from __future__ import annotations

from abc import ABC, abstractmethod

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access


class Hosts(ABC):
    """The hosts of one registered run. For one thread, and one ``up``."""

    run: registry.Run  # as saved last: its hosts and details among it

    @property
    @abstractmethod
    def limitations(self) -> tuple[str, ...]:
        """What of the settings could not be honoured, one sentence each; grows until ``settle``."""

    def up(self) -> tuple[Access, ...]:
        """Bring all hosts up, sshd answering, ``netns_pid`` known; how to reach them, in the order they were given in.

        Raises: TestbedError; then, and on any other exception, all that was brought up is gone.
        """
        try:
            return self._up()
        except BaseException:
            self.down()
            raise

    @abstractmethod
    def down(self) -> tuple[str, ...]:
        """Release everything of the run, what others started under its id too; what that was, one line each."""

    @abstractmethod
    def settle(self) -> None:
        """Set what needs the data devices: call it when a relay has made them; ``up`` does so for VETH.

        Changes ``limitations``. Raises: TestbedError.
        """

    @abstractmethod
    def _up(self) -> tuple[Access, ...]:
        """What ``up`` does, if nothing goes wrong."""
