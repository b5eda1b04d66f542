import pytest

from e2c_dl.errors import InputError
from e2c_dl.testbeds import catalogue, registry


def test_the_testbeds_there_are():
    assert catalogue.names() == ("local", "docker", "vagrant", "static", "g5k")
    assert catalogue.testbed("local", {}).name == "local"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("locl", {}, "--on locl: no such testbed; did you mean local?"),
        ("", {}, "--on : no such testbed; write one of local, docker, vagrant, static, g5k"),
        ("g6k", {}, "--on g6k: no such testbed; did you mean g5k?"),
        ("static", {"wait": "1h"}, "--wait: not for --on static; leave it out, or write --on g5k"),
        ("g5k", {"wait": "1h"}, "--wait 1h: no time; write hours, minutes and seconds, such as 00:50:00"),
        ("local", {"image": "debian"}, "--image: not for --on local; leave it out, or write --on docker"),
        ("docker", {"inventory": "f"}, "--inventory: not for --on docker; leave it out, or write --on static"),
        ("static", {}, "--on static: needs --inventory; say which file"),
    ],
)
def test_what_is_wrong_with_it_is_said(name, options, said):
    with pytest.raises(InputError) as caught:
        catalogue.testbed(name, options)
    assert str(caught.value) == said


def test_a_run_is_destroyed_by_the_testbed_that_it_is_on(tmp_path, monkeypatch):
    asked = []
    for name in ("local", "static"):
        run = registry.begin(f"0000000{len(asked)}", scenario="s", testbed=name, base=tmp_path)
        room = {"local": "namespaces", "static": "machines"}[name]
        module = f"e2c_dl.testbeds.{room}.cleanup.destroy"
        monkeypatch.setattr(module, lambda run_id, base, *, keep, name=name: asked.append((name, run_id)) or ())
        catalogue.destroy(run.id, tmp_path)
    assert asked == [("local", "00000000"), ("static", "00000001")]


def test_a_run_killed_before_it_could_say_is_removed_as_a_local_one(tmp_path):
    (tmp_path / "0000000b").mkdir()
    assert catalogue.destroy("0000000b", tmp_path) == (f"directory {tmp_path / '0000000b'}",)
