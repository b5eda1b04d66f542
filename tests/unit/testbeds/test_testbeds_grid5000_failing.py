"""What goes wrong between a run and Grid'5000: no job stays, the archive says what happened, exit codes are honest."""

import json
import os
import signal
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from grid5000_api import HANG, LOST, NONSENSE, OTHER, TRUNCATED, Platform, serving

from e2c_dl.campaign import finish
from e2c_dl.campaign.request import Request
from e2c_dl.campaign.run import run
from e2c_dl.errors import E2cDlError, InputError, Interrupted, TestbedError
from e2c_dl.testbeds import catalogue, registry
from e2c_dl.testbeds.e2clab import reservation

JOBS = "/sites/rennes/jobs"


class Heard:
    """A console that remembers; ``on`` is called with each line."""

    def __init__(self):
        self.lines, self.on = [], lambda line: None

    def say(self, line):
        self.lines.append(line)
        self.on(line)

    def begun(self, run_id, archive):
        self.run_id = run_id

    def failed(self, name, why):
        self.say(f"{name} failed: {why}")

    def step(self, name, what): ...

    def done(self, name, seconds): ...

    def doing(self, doing): ...

    def progress(self, progress): ...


class Site:
    """A user outside of Grid'5000, and a scenario of six nodes."""

    def __init__(self, folder, api, experiment):
        self.folder, self.api, self.experiment, self.console = folder, api, experiment, Heard()

    def run(self, *, wait="00:00:20", archive="a"):
        """What the run was ended by; nothing of it is left."""
        request = Request(
            scenario=self.experiment, artifacts=None, testbed="g5k", options={"wait": wait},
            archive=self.folder / archive,
        )  # fmt: skip
        with pytest.raises(E2cDlError) as caught:
            run(request, self.console)
        assert self.api.up() == []
        assert registry.runs() == ()
        return caught.value

    @property
    def told(self):
        return json.loads((self.folder / "a/run.json").read_text())


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    for name in ("id_rsa", "id_rsa.pub"):
        (folder / ".ssh" / name).write_text("ssh-rsa AAAA nobody's\n")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr("e2clab.constants.default.SSH_KEYFILE", str(folder / ".ssh/id_rsa.pub"))  # of home, at import
    monkeypatch.setenv("E2CDL_STATE", str(tmp_path / "state"))
    return folder


@pytest.fixture
def api(home):
    with serving(Platform(addresses=[f"192.0.2.{i}" for i in range(1, 7)])) as platform:
        platform.write_account(home, timeout=1.5)
        yield platform


@pytest.fixture
def site(tmp_path, api, repository, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Site(tmp_path, api, repository / "experiments/first-light")


def ends(site, kind, *said, status=1):
    """``run`` ends so, and its archive says so."""
    error = site.run()
    assert isinstance(error, kind) and error.exit_code == status
    happened = " ".join([str(error), *site.told["what_happened"]])
    assert all(each in happened for each in said), happened
    assert site.told["outcome"] == ("interrupted" if kind is Interrupted else "failed")
    assert site.told["facts"]["ended_with"]["exit_code"] == status


def test_a_job_that_never_starts_is_given_up(site):
    site.api.states = ["waiting"]
    error = site.run(wait="00:00:02")
    assert "job 1000 of rennes is waiting, expected to begin 2027" in str(error) and "--wait" in str(error)
    assert any(line.startswith("job 1000 of rennes is waiting") for line in site.console.lines)
    assert any("job 1000 of rennes is waiting" in line for line in site.told["what_happened"])


@pytest.mark.parametrize("state", ["terminated", "error"])
def test_a_job_that_ends_while_it_waits_is_an_error_at_the_next_look(site, state):
    site.api.states = ["waiting", state]
    ends(site, TestbedError, f"job 1000 of rennes is {state}: it ended before it began")
    assert len(site.api.asked("GET", f"{JOBS}/1000")) <= 4  # two looks, and what the release asks


def test_fewer_nodes_than_asked_are_an_error_before_anything_is_done_on_them(site):
    site.api.states, site.api.missing = ["running"], 1
    ends(site, TestbedError, "Grid'5000 gave 5 of 6 nodes")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (500, "made to fail"), (401, "refuses the account"), (NONSENSE, "nobody understands"),
        (OTHER, "nobody understands"), (HANG, "did not answer in time"),
    ],
)  # fmt: skip
def test_an_api_that_fails_while_reserving(site, how, said):
    site.api.broken = {f"POST {JOBS}": how}
    ends(site, InputError if how == 401 else TestbedError, said, status=2 if how == 401 else 1)


def test_a_job_whose_answer_was_lost_is_deleted_all_the_same(site):
    """It was made, and nobody was told its number: it is known by its name."""
    site.api.broken, site.api.after = {f"POST {JOBS}": LOST}, 1
    ends(site, TestbedError, "did not answer in time")
    assert [job.deleted for job in site.api.jobs.values()] == [True]


@pytest.fixture
def in_new_york():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("second_fails", [False, True])
@pytest.mark.usefixtures("in_new_york")
def test_jobs_of_several_sites_are_given_back(site, second_fails):
    """EnOSlib has them begin together, and reads a reservation in this machine's time, where OAR's is that of Paris."""
    later = datetime.fromtimestamp(time.time() + 7200, ZoneInfo("Europe/Paris")).strftime("%Y-%m-%d %H:%M:%S")
    two_sites(site, later)
    if second_fails:
        site.api.on["POST"] = lambda: site.api.broken.update({"POST": 500})  # the first is well
    site.api.states, site.api.missing = ["waiting", "running"], 1
    ends(site, TestbedError, "made to fail" if second_fails else "Grid'5000 gave 4 of 6 nodes")
    assert [job.deleted for job in site.api.jobs.values()] == [True] * (1 if second_fails else 2)
    assert {(body["reservation"], body["project"]) for body in site.api.asked("POST")} == {(later, "lab")}


def two_sites(site, begins):
    import shutil

    shutil.copytree(site.experiment, site.folder / "two")
    file = site.folder / "two/layers_services.yaml"
    text, last, more = file.read_text().rpartition("- name: Trainer\n")
    text = text.replace("  g5k:\n", f"  g5k:\n    project: lab\n    reservation: '{begins}'\n")
    file.write_text(f"{text}{last}    cluster: chifflot\n{more}")
    site.experiment = site.folder / "two"


@pytest.mark.parametrize(
    ("how", "said"),
    [(500, "answers with errors of its own"), (NONSENSE, "nobody understands"), (HANG, "did not answer in time")],
)
def test_an_api_that_fails_while_a_job_waits(site, how, said, monkeypatch):
    monkeypatch.setattr(reservation, "UNANSWERED", 1)
    site.api.states = ["waiting"]
    site.console.on = lambda line: line.startswith("reserved") and site.api.broken.update({f"GET {JOBS}/1000": how})
    site.api.after = {500: 3, NONSENSE: 1, HANG: 2}[how]  # one look; then all is well, and the job seen to be over
    ends(site, TestbedError, said)


def test_who_waits_does_not_lose_his_place_for_an_answer(site):
    site.api.states, site.api.missing = ["waiting", "running"], 1
    site.console.on = lambda line: "waiting" in line and site.api.broken.update({f"GET {JOBS}/1000": NONSENSE})
    site.api.after = 1
    ends(site, TestbedError, "gave 5 of 6 nodes")


@pytest.mark.parametrize("how", [500, NONSENSE, TRUNCATED, OTHER, HANG])
def test_an_api_that_fails_from_the_beginning(site, how):
    site.api.broken = {"GET /sites": how}
    assert isinstance(site.run(), TestbedError)
    assert not (site.folder / "a").exists() and site.api.asked("POST") == []


def test_a_refused_account_is_wrong_input(site, home):
    site.api.write_account(home, password="another")
    error = site.run()
    assert isinstance(error, InputError) and "refuses the account (401" in str(error)
    assert site.api.asked("POST") == []


def test_a_node_that_fails_to_deploy_three_times_is_an_error(site, tmp_path):
    deploying(site, tmp_path)
    site.api.refused = [{"paradoxe-2"}] * 3
    ends(site, TestbedError, "paradoxe-2.rennes.grid5000.fr: could not be deployed with debian12-min in 3 tries")
    asked = [body["nodes"] for body in site.api.asked("POST", "/deployments")]
    assert [len(nodes) for nodes in asked] == [6, 1, 1]  # what was deployed is left alone


def deploying(site, folder):
    import shutil

    shutil.copytree(site.experiment, folder / "deployed")
    file = folder / "deployed/layers_services.yaml"
    file.write_text(file.read_text().replace("job_type: []", "job_type: [deploy]\n    env_name: debian12-min"))
    site.experiment, site.api.states = folder / "deployed", ["running"]


@pytest.mark.parametrize(
    "during", [f"POST {JOBS}", f"GET {JOBS}/1000", "POST /sites/rennes/deployments", "GET /sites/rennes/deployments"]
)
def test_ctrl_c_in_each_stage(site, tmp_path, during):
    deploying(site, tmp_path)
    site.api.on[during] = lambda: os.kill(os.getpid(), signal.SIGINT)
    ends(site, Interrupted, "stopped by SIGINT", status=130)


@pytest.mark.parametrize(("number", "during"), [(signal.SIGTERM, f"POST {JOBS}"), (signal.SIGHUP, f"GET {JOBS}/1000")])
def test_a_signal_to_end_and_a_terminal_that_is_closed_are_as_ctrl_c(site, number, during):
    site.api.states = ["waiting"]
    site.api.on[during] = lambda: os.kill(os.getpid(), number)
    ends(site, Interrupted, f"stopped by {signal.Signals(number).name}", status=130)


def test_ctrl_c_again_while_the_job_is_deleted_does_not_leave_it(site):
    site.api.states = ["waiting"]
    site.api.on[f"GET {JOBS}/1000"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    site.api.on[f"DELETE {JOBS}"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    ends(site, Interrupted, "stopped by SIGINT", status=130)


def test_a_job_that_cannot_be_deleted_keeps_the_run_known(site):
    site.api.states, site.api.missing = ["running"], 1
    site.api.broken = {f"DELETE {JOBS}": 500}
    request = Request(scenario=site.experiment, artifacts=None, testbed="g5k", archive=site.folder / "a")
    with pytest.raises(TestbedError):
        run(request, site.console)
    (left,) = registry.runs()
    assert any(f"e2c-dl destroy {left.id}" in line for line in site.console.lines)
    with pytest.raises(TestbedError, match="tries again"):
        catalogue.destroy(left.id)
    site.api.broken = {}
    assert "job 1000 of rennes" in catalogue.destroy(left.id)
    assert site.api.up() == [] and registry.runs() == ()


def test_after_kill_9_while_a_job_waits_destroy_deletes_it(site):
    site.api.states = ["waiting"]
    child = os.fork()
    if child == 0:  # a fork: what was imported need not be again
        try:
            site.run(wait="01:00:00")
        finally:
            os._exit(1)
    while not site.api.up():
        time.sleep(0.02)  # polling another process
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (dead,) = registry.dead_runs()
    assert "job 1000 of rennes" in finish.end(dead, site.console, asked=False)  # as `e2c-dl destroy`
    assert site.api.up() == [] and registry.runs() == ()
    assert site.told["outcome"] == "failed" and "its controller was killed" in " ".join(site.told["what_happened"])
