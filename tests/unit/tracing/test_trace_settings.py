"""Settings of the tracer: what is written into an environment is read from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner

from e2c_dl.beneath import LARGE_BYTES
from e2c_dl.cli.trace import trace
from e2c_dl.trace.attaching import CAP
from e2c_dl.tracing import folder
from e2c_dl.tracing.settings import Settings


def test_settings_come_back() -> None:
    settings = Settings(archive=Path("/a"), layer="edge", cap_bytes=200_000)
    assert Settings.of(settings.environment({})) == settings
    assert Settings.of({}) is None


@pytest.mark.parametrize("cap", ["", "much", "-1", str(10 * LARGE_BYTES)])
def test_a_cap_that_is_none_is_what_a_reader_takes(cap: str) -> None:
    found = Settings.of({**Settings(archive=Path("/a")).environment({}), CAP: cap})
    assert found is not None and found.cap_bytes == LARGE_BYTES


@pytest.mark.parametrize(
    ("cap", "why"), [("much", "--cap much: "), ("1KiB", "--cap 1KiB: a trace has 64 KiB to 1 GiB")]
)
def test_a_cap_that_holds_no_trace_is_refused(cap: str, why: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(
        trace, ["--cap", cap, "--archive", str(tmp_path / "a"), "--", "true"], standalone_mode=False
    )
    assert isinstance(said.exception, UsageError) and why in said.exception.message
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("rank", "size", "told"), [("3", "4", (3, 4)), ("²", "4", (0, 1)), ("", "4", (0, 1)), ("-1", "4", (0, 1))]
)
def test_a_rank_that_is_no_number_is_none(
    monkeypatch: pytest.MonkeyPatch, rank: str, size: str, told: tuple[int, int]
) -> None:
    for name in ("E2CDL", "HOROVOD"):
        monkeypatch.delenv(f"{name}_RANK", raising=False)
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    assert folder.of_environment() == told
