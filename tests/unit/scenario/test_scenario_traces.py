"""Recorded bandwidth traces: CSV and Mahimahi files to schedules, copied with their scenario, and sent to hosts."""

import pytest
from small_scenario import SERVICES, STRATEGIES, found, writer

from e2c_dl.resources import template_dir
from e2c_dl.scenario.folder.copies import overridden
from e2c_dl.scenario.load import load, local_problems

FRAME_BITS = 1514 * 8


@pytest.fixture
def write(tmp_path):
    return writer(tmp_path)


def with_trace(write, text, name="lte.csv", more="", **files):
    emulation = f"schedules:\n  links: [{{src: edge-1, dst: cloud-1, rate: {{trace: traces/{name}{more}}}}}]\n"
    path = write(emulation=emulation, **files)
    (path / "traces").mkdir(exist_ok=True)
    (path / "traces" / name).write_text(text)
    return path


def schedule(path):
    loaded = load(path, SERVICES, strategies=STRATEGIES, used_links=lambda *_: [])
    return loaded.schedules.links["edge-1", "cloud-1"].rate_bps


def test_a_csv_holds_each_rate_until_the_next_and_repeats(write):
    came = schedule(with_trace(write, "time_s,rate_bps\n7,4e6\n8,2000000\n8.5,3e6\n"))
    assert came.points == ((0, 4e6), (1, 2e6), (1.5, 3e6))
    assert came.period_s == 2  # the last holds as long as the one before it


@pytest.mark.parametrize(("title", "number"), [("rate_bps", "5000000"), ("rate_kbps", "5000"), ("rate_mbps", "5.0")])
def test_rates_may_have_other_units_and_other_columns_beside_them(write, title, number):
    text = f"cell,{title}, time_s\nA,1,0\n\nB,{number},1\n"
    assert schedule(with_trace(write, text)).points[1] == (1, 5e6)


def test_a_window_averages_so_that_the_same_bits_pass(write):
    rows = "".join(f"{n / 1000},{(n % 7) * 1e6}\n" for n in range(1000))
    came = schedule(with_trace(write, f"time_s,rate_bps\n{rows}", more=", window: 100ms"))
    assert [time_s for time_s, _ in came.points] == pytest.approx([n / 10 for n in range(10)])
    bits = sum(rate * 0.1 for _, rate in came.points)
    assert bits == pytest.approx(sum((n % 7) * 1e6 for n in range(1000)) / 1000)


def test_what_a_trace_has_no_rate_for_passes_one_frame_in_all_that_time(write):
    came = schedule(with_trace(write, "time_s,rate_bps\n0,1e6\n1,0\n2,0\n3,1e6\n"))
    assert came.points == ((0, 1e6), (1, FRAME_BITS / 2), (3, 1e6))
    assert schedule(with_trace(write, "time_s,rate_bps\n0,1e6\n1,0\n99,1e6\n")).points[1] == (
        1,
        1000,
    )  # the least there is


def test_mahimahi_counts_full_packets_over_windows_and_repeats(write):
    # 12 packets in the first 100 ms, none in the second, 1 at 250 ms; the last line says how long it is.
    times = [*[n * 8 for n in range(12)], 250, 300]
    came = schedule(with_trace(write, "".join(f"{n}\n" for n in times), "lte.down"))
    first = (0, 13 * FRAME_BITS / 0.1)  # what may pass at the very end does so at the beginning
    assert came.points == (first, (0.1, FRAME_BITS / 0.1), (pytest.approx(0.2), pytest.approx(FRAME_BITS / 0.1)))
    assert came.period_s == 0.3


def test_a_mahimahi_trace_of_twelve_megabit_carries_as_many_packets(write):
    came = schedule(with_trace(write, "".join(f"{n}\n" for n in range(1, 1001)), "12mbps", ", window: 250ms"))
    assert came.is_constant
    assert came.at(0) == pytest.approx(12e6 * 1514 / 1500)
    assert came.period_s == 1


def test_a_short_rest_belongs_to_the_last_window(write):
    came = schedule(with_trace(write, "".join(f"{n}\n" for n in [50, 150, 160, 230, 240, 240]), "a", ""))
    assert [time_s for time_s, _ in came.points] == [0, 0.1]
    assert came.points[1][1] == pytest.approx(3 * FRAME_BITS / 0.14)


TRACE_CASES = [
    ("a.csv", "time,rate\n0,1\n", "traces/a.csv:1: its first line names no time_s or not one rate; begin with"),
    ("a.csv", "", "its first line names no time_s"),
    ("a.csv", "time_s,rate_bps,rate_mbps\n", "not one rate"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n", "holds fewer than two rates"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n1,x\n", "traces/a.csv:3: 'x' is no number"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n1\n", "traces/a.csv:3: '' is no number"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n1,nan\n", "'nan' is no number"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n1,-1\n", "a rate of -1"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n1,1e12\n", "1e+12 bit/s is more than any link"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n\n1,1e6\n1,1e6\n", "traces/a.csv:5: its times do not rise"),
    ("a.csv", "time_s,rate_bps\n0,1e6\n0.001,1e6\n", "trace: changes within less than 0.01s; add e.g. window: 100ms"),
    ("a.up", "1\nx\n", "traces/a.up:2: 'x' is no time; write one number of milliseconds per line, or end the name"),
    ("a.up", "5\n4\n", "traces/a.up:2: 4 comes after 5"),
    ("a.up", "0\n", "lasts no time"),
    ("a.up", "", "lasts no time"),
    ("a.up", "é", "is no plain text"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "says"), TRACE_CASES)
def test_what_is_wrong_with_a_trace_is_said_in_one_line(write, name, text, says):
    (error,) = found(with_trace(write, text, name))
    assert says in error
    assert "\n" not in error


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../lte.csv", "traces/../../a.csv", "traces/a/b.csv", "lte.csv", "traces/.a"]
)
def test_a_trace_stands_in_the_folder_of_traces(write, name):
    (error,) = found(
        write(emulation=f"schedules:\n  links: [{{src: edge-1, dst: cloud-1, rate: {{trace: {name}}}}}]\n")
    )
    assert error.startswith("emulation.yaml:2: schedules.links[0].rate.trace: ")
    assert "is not a file of the folder traces; put it into the scenario's folder traces and write traces/" in error


def test_a_trace_that_is_missing_or_a_link_is_refused(write):
    path = with_trace(write, "1\n2\n", "lte")
    (path / "traces" / "lte").rename(path / "traces" / "other")
    assert "'traces/lte' cannot be read: No such file" in found(path)[0]
    (path / "traces" / "lte").symlink_to("other")
    assert "is no regular file" in found(path)[0]
    (path / "traces").rename(path / "elsewhere")
    (path / "traces").symlink_to("elsewhere")
    assert "the folder traces is a link" in found(path)[0]


def test_traces_go_with_a_copy_of_their_scenario(write, tmp_path):
    path = with_trace(write, "1\n2\n", "lte")
    (path / "traces" / ".hidden").write_text("")
    (path / "traces" / "link").symlink_to("lte")
    (path / "traces" / "deep").mkdir()
    overridden(path, tmp_path / "copy")
    assert [file.name for file in (tmp_path / "copy" / "traces").iterdir()] == ["lte"]
    assert schedule(tmp_path / "copy") == schedule(path)


def test_a_workflow_that_sends_the_yaml_files_alone_is_refused_where_traces_are_named(write):
    old = '- {hosts: "*.trainer.*", prepare: [{copy: {src: x}, with_fileglob: "{{ scenario_dir }}/*.yaml"}]}\n'
    (error,) = found(with_trace(write, "1\n2\n", "lte", workflow=old))
    assert "workflow.yaml:1: sends *.yaml to the hosts, and not the folder traces" in error
    template = (template_dir() / "workflow.yaml").read_text()
    assert found(with_trace(write, "1\n2\n", "lte", workflow=template)) == []
    assert found(write(workflow=old, emulation="tcp: {}")) == []


def test_a_workflow_that_starts_workers_as_they_once_were_is_refused(write):
    template = (template_dir() / "workflow.yaml").read_text().replace("e2c_dl.drivers.live", "e2c_dl.host")
    path = write(workflow=template)
    assert found(path) == []  # archives of such runs are read
    error = str(local_problems(load(path), elsewhere=False)[0])
    assert "workflow.yaml:" in error and "e2c_dl.host, which is there no more; copy workflow.yaml of" in error
