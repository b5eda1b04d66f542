"""The loopback API answers an unpatched client as Grid'5000 does, and goes wrong where it is told to."""

import pytest
import requests
from grid5000 import Grid5000
from grid5000.exceptions import Grid5000AuthenticationError, Grid5000CreateError
from grid5000_api import HANG, Platform, serving

ASKED = {
    "name": "first", "types": ["deploy"], "queue": "default", "command": "sleep 31536000",
    "resources": "{cluster='chifflot'}/nodes=1+{cluster='chifflot'}/nodes=1,walltime=00:30:00",
}  # fmt: skip


@pytest.fixture
def api():
    with serving(Platform()) as platform:
        yield platform


@pytest.fixture
def client(api):
    return Grid5000(uri=api.url, username=api.user, password=api.password, timeout=30)


def test_a_job_is_reserved_runs_when_it_was_looked_at_and_is_deleted(api, client):
    site = client.sites["lille"]
    job = site.jobs.create(ASKED)
    assert [each.uid for each in site.jobs.list(name="first", state="waiting,running", user="root")] == [job.uid]
    seen = []
    for _ in range(3):
        job.refresh()
        seen.append(job.state)
    assert seen == ["waiting", "launching", "running"]
    assert sorted(job.assigned_nodes) == ["chifflot-1.lille.grid5000.fr", "chifflot-2.lille.grid5000.fr"]
    assert api.up() == [job.uid]
    job.delete()
    job.refresh()
    assert (job.state, api.up()) == ("error", [])
    assert api.asked("POST") == [ASKED]


def test_a_node_fails_to_deploy_once(api, client):
    api.refused = [{"chifflot-2"}]
    nodes = [api.node("chifflot", number) for number in (1, 2)]
    for states in (["OK", "KO"], ["OK", "OK"]):
        deployment = client.sites["lille"].deployments.create({"environment": "debian12-min", "nodes": nodes})
        assert deployment.status == "processing"
        deployment.refresh()
        assert [deployment.result[node]["state"] for node in nodes] == states


def test_what_is_broken_is_broken_and_a_wrong_password_refused(api, client):
    with pytest.raises(Grid5000AuthenticationError):
        Grid5000(uri=api.url, username=api.user, password="another").sites.list()
    site = client.sites["lille"]
    api.broken = {"POST /sites/lille/jobs": 500, "GET /sites/lille": HANG}
    with pytest.raises(Grid5000CreateError, match="500"):
        site.jobs.create(ASKED)
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.get(f"{api.url}/sites/lille", timeout=0.05)
