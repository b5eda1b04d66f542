"""What pages say to type: their code blocks, told apart, and a session that types them and looks for what they show."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
from pathlib import Path

from click.testing import CliRunner

from benchmarks.tutorials.blocks import Block, blocks, commands, shows, steps
from e2c_dl.cli.main import cli

__all__ = ["Block", "Session", "blocks", "commands", "shows", "steps"]


class Session:
    """Types a tutorial's blocks in ``folder``, the working directory; what Python prints is in ``printed``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed: list[str] = []

    def type(self, block: Block) -> None:
        """Writes the file that ``block`` is titled with, runs it, or types its commands. Raises: AssertionError."""
        if block.title:
            (self.folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(block.text, f"line {block.line}", "exec"), {"__name__": "__main__"})
            self.printed.append(said.getvalue().strip())
        elif block.language == "console":
            for command, shown in steps(block):
                output = self._run(command)
                assert shows(output, shown), f"line {block.line}: {command}\n--- shown\n{shown}\n--- was\n{output}"

    def _run(self, command: str) -> str:
        words = shlex.split(command)
        if words[0] == "e2c-dl":
            done = CliRunner().invoke(cli, words[1:])
            return f"{done.output}\n{done.exception or ''}"
        typed = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, check=True)
        return typed.stdout
