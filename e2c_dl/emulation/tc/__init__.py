"""Traffic control by the kernel: the commands of a topology as values, run and read back on the host.

:func:`commands` and its kin are pure; :mod:`e2c_dl.emulation.tc.on_host` is the program that runs what they give.
"""

from e2c_dl.emulation.tc.link_class import Command
from e2c_dl.emulation.tc.rendering import changed, changes, clear, commands, needs_netem, unsupported

__all__ = ["Command", "changed", "changes", "clear", "commands", "needs_netem", "unsupported"]
