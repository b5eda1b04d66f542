"""A compiler that fails is heard: in one line, and as the failure that those who boot a machine expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.uml import boot, registers


def test_what_the_compiler_says_is_in_the_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'fatal error: dlfcn.h: No such file' >&2\necho 'terminated.' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(registers, "COMPILER", str(compiler))
    with pytest.raises(boot.UmlError) as caught:
        registers.made(tmp_path)
    assert str(caught.value) == (
        "whole_registers.c cannot be compiled: fatal error: dlfcn.h: No such file terminated.; "
        "are the Debian packages gcc, libc6-dev installed?"
    )
