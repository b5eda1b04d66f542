"""What pages show that is no code: output, trees of files, pictures. Each is known here, and held against the program.

Output is compared with what the program prints of a small simulated run, figures and names aside: words must be its.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import continued
import pytest
import typed
from click.testing import CliRunner
from synthetic import Ring, simulate
from test_code_blocks import every

from e2c_dl.archive import layout
from e2c_dl.campaign.watch.standstill import Standstill
from e2c_dl.cli.analysis import advise
from e2c_dl.cli.main import cli
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.load import load
from e2c_dl.strategies.compression.compressing import Compressor
from e2c_dl.testbeds import catalogue
from e2c_dl.testbeds.horovod import recipe
from e2c_dl.topology import Link
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.growing import GrowingSpans

_MASKED = re.compile(r"\b(?:edge|fog|cloud)-\d+\b|\d+(?:\.\d+)?(?: (?:ms|s|h)\b)?|runs/\S+|/\S+|simulated|on local")


def masked(text: str) -> str:
    """``text`` without figures, hosts and places; lines may break elsewhere."""
    return " ".join(_MASKED.sub("_", " ".join(text.split())).split())


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shown") / "first-light"
    copies.example("first-light", folder)
    services = folder / "layers_services.yaml"
    services.write_text(services.read_text().replace("iterations: 60", "iterations: 16"))
    return folder


@pytest.fixture(scope="module")
def summary(scenario: Path) -> str:
    return said("simulate", str(scenario), "--shapes-only", "--archive", str(scenario.parent / "run"))


def said(*argv: str) -> str:
    done = CliRunner().invoke(cli, argv)
    return f"{done.stdout}\n{done.stderr}\n{done.exception or ''}"


def block(repository: Path, page: str, begins: str) -> str:
    """The one block of ``page`` that begins so."""
    found = [each.text for each in typed.blocks((repository / page).read_text()) if each.text.startswith(begins)]
    assert len(found) == 1, (page, begins)
    return found[0]


def test_every_text_and_output_is_known_here(repository: Path) -> None:
    shown = {
        (where.partition(":")[0], each.text.split()[0])
        for where, each in every(repository)
        if each.language == "text" or (each.language == "console" and "/tutorials/" not in where)
    }
    assert shown == {(page, begins.split()[0]) for page, begins in KNOWN}


def of_verdicts(repository: Path, summary: str, _: Path) -> None:
    headline = masked(summary.partition("\n  - ")[0].strip())
    assert headline in masked(summary)
    assert masked(block(repository, "README.md", "What slowed")) == headline
    now = masked(block(repository, "docs/watching.md", "Iterations"))
    assert now.startswith("Iterations _ to _. " + headline.replace("this run", "these iterations"))


def of_standstills(repository: Path, _: str, __: Path) -> None:
    """Four hosts of a ring, of which one has ended an iteration more than the others."""
    links = (Link(rate_bps=40e6, delay_s=0.002),) * 4
    ring = Ring(compute_s=(0.05,) * 4, links=links, bucket_bytes=(200_000, 100_000), iterations=12)
    grown = {}
    for rank in simulate(ring).ranks:
        grown[rank.host] = GrowingSpans(rank.host)
        grown[rank.host].add(continued.until(rank, 9 if rank.rank == 1 else 8))
    shown = block(repository, "docs/watching.md", "No iteration")
    assert masked(shown) == masked(Standstill(0.0).said(5.1, grown))


def of_whatif(repository: Path, _: str, scenario: Path) -> None:
    run = str(scenario.parent / "run")
    again = str(scenario.parent / "again")
    output = CliRunner().invoke(cli, ["whatif", run, "--set", "host:cloud-1.speed=3x", "--rerun", "--archive", again])

    def alike(text: str) -> str:
        """Without what is asked, by which way, how far off, and an interval, which is shown where its ends differ."""
        text = re.sub("^changed .*(?=measured)|(?<=;) from _ to _,", "", masked(text))
        text = re.sub("the prediction is _ % (?:above|below) it|as predicted", "_", text)
        return re.sub("(?<=by )(?:replay|re-simulation)", "_", text)

    assert output.stdout.startswith("changed     cloud-1: 3 x as fast\n")
    for each in typed.blocks((repository / "docs/whatif.md").read_text()):
        for command, shown in typed.steps(each) if each.language == "console" else ():
            if "whatif" in command:
                assert alike(shown) == alike(output.stdout)


def of_advise(repository: Path, _: str, __: Path) -> None:
    shown = block(repository, "docs/advise.md", "$ e2c-dl simulate").splitlines()
    (head,) = [line for line in shown if "strategy  " in line]
    source = inspect.getsource(advise)
    assert all(f'"{name.strip()}"' in source for name in re.split(r"\s{2,}", head.strip()))
    assert re.search(r"^as it is: \w+, place \d+ of \d+$", "\n".join(shown), re.MULTILINE)
    assert "as it is: " in source


def of_init(repository: Path, _: str, scenario: Path) -> None:
    named = re.findall(r"^(\S+)   ", block(repository, "README.md", "layers_services.yaml"), re.MULTILINE)
    assert len(named) == 4
    assert set(named) <= {path.name for path in scenario.iterdir()}


def of_own_model(repository: Path, _: str, __: Path) -> None:
    shown = block(repository, "docs/own-model.md", "my-scenario/")
    tutorial = typed.blocks((repository / "docs/tutorials/own-model.md").read_text())
    files = {each.title.partition("/")[2] for each in tutorial if each.title}
    assert set(re.findall(r"code/\w+\.py", shown)) == files
    assert all(f"{line}" in (repository / "docs/own-model.md").read_text() for line in files)


def of_the_tree(repository: Path, _: str, __: Path) -> None:
    folder = repository
    for line in block(repository, "docs/architecture.md", "e2c_dl/").splitlines():
        name = re.match(r"(  )?([\w.]+(?:/\w+)*/?)  ", line)
        if name is None or line.startswith("   "):
            continue
        folder = repository if name[1] is None else repository / "e2c_dl"
        assert (folder / name[2]).exists(), line


def of_grid5000(repository: Path, _: str, scenario: Path) -> None:
    shown = block(repository, "docs/grid5000.md", "g5k:").splitlines()
    lines = [f"g5k: {line}" for line in catalogue.foreseen("g5k", load(scenario)).lines]
    assert shown[0] == lines[0]
    assert shown[1].partition("{")[2] == lines[1].partition("{")[2]


def of_gpus(repository: Path, _: str, scenario: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    services = scenario / "layers_services.yaml"
    before = services.read_text()
    services.write_text(before.replace("dataset: digits", "dataset: digits\n      device: cuda"))
    try:
        found = said("check", str(scenario))
    finally:
        services.write_text(before)
    shown = block(repository, "docs/gpu.md", "e2c-dl: layers").replace("2.13.0+cpu", torch.__version__)
    assert " ".join(shown.split()) in " ".join(found.split())


def of_phases(repository: Path, _: str, __: Path) -> None:
    phases = {phase.name for phase in Phase}
    shown = set(re.findall(r"[A-Z]{4,}", block(repository, "docs/gpu.md", "host  ")))
    assert shown <= phases
    states = block(repository, "docs/concepts/states.md", "spans")
    assert {name.upper() for name in re.findall(r"=(\w+)=", states)} <= phases


def of_compressors(repository: Path, _: str, __: Path) -> None:
    lines = block(repository, "docs/strategies.md", "encode").splitlines()
    for line in lines:
        name, arguments = re.match(r"(\w+)\(([\w, ]+)\) -> ", line).groups()
        assert ["self", *arguments.split(", ")] == list(inspect.signature(getattr(Compressor, name)).parameters), line


def of_wheels(repository: Path, _: str, __: Path) -> None:
    assert block(repository, "docs/horovod.md", "horovod/").startswith(f"horovod/{recipe.VERSION}/torch-")


Check = Callable[[Path, str, Path], None]
KNOWN: dict[tuple[str, str], Check] = {
    ("README.md", "What"): of_verdicts,
    ("README.md", "layers_services.yaml"): of_init,
    ("docs/advise.md", "$"): of_advise,
    ("docs/architecture.md", "e2c_dl/"): of_the_tree,
    ("docs/concepts/states.md", "spans"): of_phases,
    ("docs/gpu.md", "e2c-dl:"): of_gpus,
    ("docs/gpu.md", "host"): of_phases,
    ("docs/grid5000.md", "g5k:"): of_grid5000,
    (
        "docs/horovod.md",
        "horovod/0.28.1/torch-2.13.0+cpu/cp311-linux_x86_64/horovod-0.28.1-cp311-cp311-linux_x86_64.whl",
    ): of_wheels,
    ("docs/own-model.md", "my-scenario/layers_services.yaml"): of_own_model,
    ("docs/strategies.md", "encode(values,"): of_compressors,
    ("docs/watching.md", "Iterations"): of_verdicts,
    ("docs/watching.md", "No"): of_standstills,
    ("docs/whatif.md", "$"): of_whatif,
}


@pytest.mark.parametrize("check", sorted(set(KNOWN.values()), key=lambda check: check.__name__))
def test_what_is_shown_is_what_the_program_says(
    check: Check, repository: Path, summary: str, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scenario.parent)
    check(repository, summary, scenario)


def test_every_file_of_an_archive_is_on_the_page_of_runs(repository: Path) -> None:
    page = (repository / "docs/runs.md").read_text()
    before_training = {layout.SETUP, layout.E2CLAB}
    names = {
        value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)
    } - before_training
    assert {name for name in names if not re.search(rf"[`/]{re.escape(name)}[`/]", page)} == set()
