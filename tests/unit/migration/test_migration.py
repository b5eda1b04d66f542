"""Scenarios of before become ones of today: valid, with every comment, and every change told."""

import re
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from old_scenarios import IMAGE, OLDS, Old

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.migration.migrate import migrate
from e2c_dl.migration.model import Asked, Kind, Loss, Said
from e2c_dl.scenario.load import problems
from e2c_dl.testbeds.e2clab.schemas import refusals

COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)


def migrated(old: Old, folder: Path, asked: Asked | None = None) -> tuple[Path, tuple[Said, ...]]:
    said = migrate(old.write(folder / "old"), folder / "new", asked or Asked())
    return folder / "new", said


@given(OLDS)
@settings(max_examples=25, deadline=None)
def test_whatever_it_was_like_it_is_valid_and_its_comments_stand_in_their_order(old: Old) -> None:
    with tempfile.TemporaryDirectory() as place:
        new, said = migrated(old, Path(place), Asked(fix=True))
        assert problems(new) == ()
        assert refusals(new) in ((), None)
        for name in ("layers_services.yaml", "network.yaml", "workflow.yaml"):
            before, after = (COMMENT.findall((Path(place) / each / name).read_text()) for each in ("old", "new"))
            gone = {"# one way"} if old.hosts == 1 else set()  # with the rule that it was of
            assert sorted(each for each in before if each not in gone) == sorted(after)
            assert (new / name).read_text().endswith("\n") or not old.last_line or name == "network.yaml"
        again = migrate(new, Path(place) / "again", Asked(fix=True))
        assert [each for each in again if each.kind is not Kind.NOTE] == []
        assert all(each.line >= 1 and each.what and each.why for each in said)


@given(OLDS)
@settings(max_examples=25, deadline=None)
def test_what_is_said_besides_is_as_it_was(old: Old) -> None:
    with tempfile.TemporaryDirectory() as place:
        new, _ = migrated(old, Path(place))
        before, after = (
            yaml.safe_load((each / "layers_services.yaml").read_text()) for each in (Path(place) / "old", new)
        )
        assert after["layers"] == before["layers"]
        inner = after["environment"]["g5k"]
        flat = {**before["environment"], **before["environment"].get("g5k", {})}
        wanted = {key: value for key, value in flat.items() if key not in ("name", "g5k", "walltime", "job_name")}
        types = inner.pop("job_type", None)
        wanted.pop("job_type", None)
        assert inner == wanted
        assert (types is not None and "deploy" in types) or not old.image
        assert {key: after["environment"][key] for key in ("walltime", "job_name")} == {
            "walltime": "01:00:00", "job_name": "of-before",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "becomes"), [(None, "0.1%"), (Loss.PERCENT, "0.1%"), (Loss.FRACTION, "10%"), (Loss.NONE, "0%")]
)
def test_what_a_bare_loss_means_is_asked_for_or_told(tmp_path: Path, loss: Loss | None, becomes: str) -> None:
    new, said = migrated(Old(servers=2), tmp_path, Asked(loss=loss))
    (rule,) = yaml.safe_load((new / "network.yaml").read_text())["networks"]
    assert rule == {"src": "*.*", "dst": "*.*", "loss": becomes, "delay": "2ms", "rate": "10gbit"}
    guessed = [each for each in said if each.kind is Kind.GUESSED]
    assert [(each.file, each.line) for each in guessed] == ([("network.yaml", 2)] if loss is None else [])
    assert all("--loss" in each.why and "10%" in each.why for each in guessed)


@pytest.mark.parametrize(("loss", "becomes"), [(None, "0.1%"), (Loss.FRACTION, "10%")])
def test_a_number_without_unit_in_a_rule_of_today_is_read_as_in_the_defaults(
    tmp_path: Path, loss: Loss | None, becomes: str
) -> None:
    old = Old(servers=2).write(tmp_path / "old")
    rule = "networks:\n- src: cloud.*\n  dst: cloud.*\n  loss: 0.1  # of before\n  delay: 28\n  rate: 1gbit\n"
    (old / "network.yaml").write_text(rule)
    said = migrate(old, tmp_path / "new", Asked(loss=loss))
    assert problems(tmp_path / "new") == () and refusals(tmp_path / "new") in ((), None)
    (found,) = yaml.safe_load((tmp_path / "new/network.yaml").read_text())["networks"]
    assert (found["loss"], found["delay"], found["rate"]) == (becomes, "28ms", "1gbit")
    guessed = [each.line for each in said if each.kind is Kind.GUESSED]
    assert guessed == ([4, 5] if loss is None else [5])


def test_a_rule_for_a_single_host_vanishes_and_is_told(tmp_path: Path) -> None:
    new, said = migrated(Old(servers=1), tmp_path)
    assert yaml.safe_load((new / "network.yaml").read_text()) == {"networks": None}
    assert "one host" in next(each.why for each in said if each.file == "network.yaml")


def test_a_folder_that_is_copied_without_r_is_told_and_repaired_if_asked(tmp_path: Path) -> None:
    _, said = migrated(Old(), tmp_path / "told")
    (defect,) = (each for each in said if each.kind is Kind.DEFECT)
    assert (defect.file, defect.line) == ("workflow.yaml", 7) and "/tmp/run/logs" in defect.why
    new, said = migrated(Old(), tmp_path / "repaired", Asked(fix=True))
    assert "cp -r /tmp/run/logs /srv/out/." in (new / "workflow.yaml").read_text()
    assert "cp /tmp/run/time.json" in (new / "workflow.yaml").read_text()
    assert [each.kind for each in said if "cp" in each.what] == [Kind.REPAIRED]


def test_an_image_of_a_user_is_told_and_replaced_if_asked(tmp_path: Path) -> None:
    _, said = migrated(Old(), tmp_path / "told")
    assert any("the user somebody" in each.what and "--env-name" in each.why for each in said)
    new, _ = migrated(Old(), tmp_path / "replaced", Asked(env_name="debian11-big"))
    text = (new / "layers_services.yaml").read_text()
    assert IMAGE not in text and "env_name: debian11-big" in text


def test_other_files_come_along_and_links_do_not(tmp_path: Path) -> None:
    old = Old().write(tmp_path / "old")
    (old / "vars").mkdir()
    (old / "vars/vars.yaml").write_bytes(b"a:   1 # kept\r\n")
    (old / "run.sh").write_text("#!/bin/sh\n")
    (old / "run.sh").chmod(0o755)
    (old / "leads-away").symlink_to("/etc/hostname")
    said = migrate(old, tmp_path / "new", Asked())
    assert (tmp_path / "new/vars/vars.yaml").read_bytes() == b"a:   1 # kept\r\n"
    assert (tmp_path / "new/run.sh").stat().st_mode & 0o111
    assert not (tmp_path / "new/leads-away").exists()
    assert "left out" in next(each.what for each in said if each.file == "leads-away")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("layers_services.yaml", "environment: {name: mars}\nlayers: []\n", "'mars' is not known"),
        ("layers_services.yaml", "environment:\n  name: g5k\n  name: g5k\n", "stands twice"),
        ("layers_services.yaml", "a: [\n", "YAML syntax error"),
        ("layers_services.yaml", "environment: &e {<<: *e}\nlayers: []\n", ""),
        ("layers_services.yaml", "- a\n- b\n", "is no mapping"),
        ("network.yaml", "networks:\n- default_loss: much\n", "is no loss"),
        ("network.yaml", "networks:\n- default_loss: 1e-3\n", "is no loss"),
        ("workflow.yaml", f"- hosts: all\n  vars: {'[' * 400}{']' * 400}\n", "nested more than 40"),
        ("layers_services.yaml", "layers:\n- services:\n  - {quantity: [1, 2]}\n", "what stands there is no whole"),
        ("network.yaml", "networks:\n- default_loss: 0.1\n  default_jitter: 1\n", "default_jitter beside defaults"),
        (
            "network.yaml",
            "networks:\n- {src: a.*, dst: b.*, delay: 1ms, rate: 1gbit}\n- default_loss: 1\n",
            "put them first",
        ),
        ("workflow.yaml", "hosts: all\n", "is no list"),
        ("workflow.yaml", "- hosts: all\r\n  launch: []\r\n", "line ends"),
        ("workflow.yaml", "\0", ""),
        ("layers_services.yaml", "# of\u2028# before\nenvironment: {name: g5k}\nlayers: []\n", "U+2028"),
        ("network.yaml", "networks:\x85- default_loss: 1\n", "U+0085"),
        ("layers_services.yaml", "a: &a x\nenvironment:\n  name: g5k\n  cluster: *a\nlayers: []\n", ":1: an alias"),
        ("layers_services.yaml", "environment:\n  ? name\n  : g5k\n  ? cluster\n  : x\n", "question mark"),
        ("workflow.yaml", "- &p\n  hosts: cloud.Horovod.*\n  launch: []\n- *p\n", ":1: an alias"),
        (
            "workflow.yaml",
            "- hosts: a.*\n  depends_on: &d {prefix: p}\n- {hosts: b.*, depends_on: *d}\n",
            ":2: an alias",
        ),
    ],
)
def test_what_is_not_understood_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    old = Old(servers=2).write(tmp_path / "old")
    (old / name).write_bytes(text.encode())
    with pytest.raises(ScenarioError, match=re.escape(name)) as refused:
        migrate(old, tmp_path / "new", Asked())
    assert why in str(refused.value) and "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_aliases_stay_where_nothing_of_them_changes(tmp_path: Path) -> None:
    old = Old(servers=2).write(tmp_path / "old")
    with (old / "workflow.yaml").open("a") as workflow:
        workflow.write("- hosts: &all cloud.*\n  prepare: &tasks\n  - ping:\n- {hosts: *all, finalize: *tasks}\n")
    migrate(old, tmp_path / "new", Asked(fix=True))
    assert "{hosts: *all, finalize: *tasks}" in (tmp_path / "new/workflow.yaml").read_text()
    assert problems(tmp_path / "new") == ()


def test_a_comment_stays_with_what_it_is_of(tmp_path: Path) -> None:
    old = Old(servers=2).write(tmp_path / "old")
    layers = "environment:\n  name: g5k\n  env_name: x\n  job_type:\n  - exotic  # why\n  # last\n  cluster: y\n"
    (old / "layers_services.yaml").write_text(f"{layers}layers:\n{Old(servers=2).services()}")
    migrate(old, tmp_path / "new", Asked())
    moved = "    job_type:\n    - exotic  # why\n    - deploy\n    # last\n    cluster: y\n"
    assert moved in (tmp_path / "new/layers_services.yaml").read_text()


SERVER = """\
environment: {name: g5k, cluster: taurus}
layers:
- {name: cloud, services: [{name: Server, quantity: 1}]}
- name: edge
  services:
  - name: Client  # one per sensor
    quantity: 3
"""
PLAYS = """\
- hosts: cloud.Server.*, edge.*
  prepare: []
- hosts: cloud.server.*:edge.client.*:!edge.client.1.3
- hosts: "edge.client.1.2"
  depends_on: {service_selector: 'cloud.server.*', grouping: round_robin, prefix: server}
  launch:
  - debug: {msg: "{{ server.url }}"}
"""


def test_services_have_the_names_that_were_asked_for_wherever_they_are_named(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "layers_services.yaml").write_text(SERVER)
    rules = (
        "- {src: all, dst: all, delay: 2ms, rate: 1gbit}\n- {src: cloud, dst: 'edge.client.*', delay: 1ms, rate: 1gbit}"
    )
    (old / "network.yaml").write_text(f"networks:\n{rules}\n")
    (old / "workflow.yaml").write_text(PLAYS)
    asked = Asked(services={"Server": "FLServer", "Client": "FLClient"})
    said = migrate(old, tmp_path / "new", asked)
    assert problems(tmp_path / "new") == ()
    assert refusals(tmp_path / "new") in ((), None)
    texts = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert "name: FLClient  # one per sensor" in texts["layers_services.yaml"]
    assert "{src: cloud.*, dst: 'edge.flclient.*', " in texts["network.yaml"]
    assert "{src: all, dst: all, " in texts["network.yaml"]  # every host, and no layer of that name
    assert "- hosts: cloud.flserver.*, edge.*\n" in texts["workflow.yaml"]
    assert "- hosts: cloud.flserver.*:edge.flclient.*:!edge.flclient.1.3\n" in texts["workflow.yaml"]
    assert '- hosts: "edge.flclient.1.2"\n' in texts["workflow.yaml"] and "{{ server.url }}" in texts["workflow.yaml"]
    assert "service_selector: 'cloud.flserver.*'" in texts["workflow.yaml"]
    assert [each.what for each in said if each.kind is Kind.GUESSED] == ["src: cloud became cloud.*"]
    with pytest.raises(InputError, match="has no service of this name"):
        migrate(old, tmp_path / "other", Asked(services={"Sever": "FLServer"}))


def test_where_nobody_limited_links_there_is_a_network_without_rules(tmp_path: Path) -> None:
    old = Old(servers=2).write(tmp_path / "old")
    (old / "network.yaml").unlink()
    said = migrate(old, tmp_path / "new", Asked())
    assert problems(tmp_path / "new") == () and refusals(tmp_path / "new") in ((), None)
    assert [each.what for each in said if each.file == "network.yaml"] == ["added, without a rule"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    old = Old().write(tmp_path / "old")
    (tmp_path / "new").mkdir()
    for new in (tmp_path / "new", old / "inside"):
        with pytest.raises(InputError, match="name a"):
            migrate(old, new, Asked())


@pytest.mark.parametrize("form", ["\n  type: tig\n  network: shared  # of all\n", " {type: tig, network: shared}\n"])
def test_monitoring_names_where_its_server_is(tmp_path: Path, form: str) -> None:
    layers = f"environment:\n  name: g5k\n  cluster: taurus\nmonitoring:{form}layers:\n"
    layers += "- name: edge\n  services:\n  - {name: Horovod, quantity: 2, roles: [monitoring]}\n"
    old = tmp_path / "old"
    old.mkdir()
    (old / "layers_services.yaml").write_text(layers)
    (old / "network.yaml").write_text("networks:\n")
    (old / "workflow.yaml").write_text("[]\n")
    said = migrate(old, tmp_path / "new", Asked())
    assert [(each.kind, each.what) for each in said if "provider" in each.what] == [
        (Kind.GUESSED, "provider: g5k, cluster: taurus added")
    ]
    assert problems(tmp_path / "new") == ()
    assert refusals(tmp_path / "new") in ((), None)
    found = yaml.safe_load((tmp_path / "new/layers_services.yaml").read_text())["monitoring"]
    assert found == {"type": "tig", "provider": "g5k", "cluster": "taurus", "network": "shared"}
