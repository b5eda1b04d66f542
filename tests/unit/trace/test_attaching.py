"""Which host of a run a rank is on, by the table that all of them are given."""

from e2c_dl.trace.attaching import Placed, found, table

HOSTS = [("10.0.0.1", Placed("edge-1", "edge")), ("10.0.0.11", Placed("fog-1", "fog"))]


def test_a_host_finds_itself_by_any_of_its_addresses() -> None:
    assert found(table(HOSTS), ("127.0.0.1", "10.0.0.11")) == HOSTS[1][1]
    assert found(table(HOSTS), ("10.0.0.2",)) is None


def test_what_is_no_table_has_no_host() -> None:
    assert [found(said, ("a", "")) for said in ("", "a", "a=b", "a=/edge", "=,=", "edge-1")] == [None] * 6
