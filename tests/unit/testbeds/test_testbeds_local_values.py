"""What local hosts are made of, as values: addresses, cables, files, quotas, TCP settings, ways in."""

import os
import pwd
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from e2c_dl.errors import TestbedError
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.namespaces import holder
from e2c_dl.testbeds.this_machine import addresses, cpu, files, tcp
from e2c_dl.testbeds.this_machine.system_path import SYSTEM_PATH, with_system

_ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000112C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
tun0\t000012C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
_USER = pwd.struct_passwd(("root", "x", 0, 0, "root", "/root", "/bin/bash"))
_REACHED = Access(
    name="edge-1",
    address="198.18.1.10",
    data_address="198.19.0.10",
    data_device="eth1",
    user="root",
    keyfile="/key",
    port=22,
    python="python3",
    run_dir="/dir",
    netns_pid=7,
)


def host_files(run: Path, data: str | None = None) -> files.HostFiles:
    return files.HostFiles(
        name="edge-1",
        run=run,
        management="198.18.1.10/24",
        data=data,
        neighbours={"edge-1": "198.19.0.10", "fog-1": "198.19.0.11"},
        sysctl={"net/ipv4/tcp_congestion_control": "cubic"},
    )


def test_addresses_follow_from_slot_and_place() -> None:
    assert str(addresses.gateway(7)) == "198.18.7.1/24"
    assert str(addresses.management_address(7, 0)) == "198.18.7.10/24"
    assert str(addresses.data_address(3)) == "198.19.0.13/16"
    assert addresses.mac("198.19.0.13") == "02:00:c6:13:00:0d"


def test_every_host_fits_into_its_management_network() -> None:
    network = addresses.management_network(254)
    last = addresses.management_address(254, addresses.MOST_HOSTS - 1)
    assert last.ip in network and last.ip != network.broadcast_address


def test_device_names_fit_the_kernel() -> None:
    assert len(addresses.uplink("0123abcd")) <= 15


def test_routes_are_read() -> None:
    expected = [IPv4Network("0.0.0.0/0"), IPv4Network("198.18.1.0/24"), IPv4Network("198.18.0.0/16")]
    assert list(addresses.routed_networks(_ROUTES)) == expected


def test_the_lowest_free_slot_is_taken(tmp_path: Path) -> None:
    table = tmp_path / "route"
    table.write_text(_ROUTES)
    assert addresses.free_slot({2}, table) == 3  # 1 is routed, 2 another run's; wider routes are no obstacle
    with pytest.raises(TestbedError, match="no free network"):
        addresses.free_slot(range(255), table)


def test_cables_without_data() -> None:
    assert holder.in_core("0123abcd", 5, [11], with_data=False) == [
        "link add mgmt type bridge",
        "link set mgmt up",
        "link add up0 type veth peer name e2c-0123abcd netns 5",
        "link set up0 master mgmt up",
        "link add m0 type veth peer name eth0 netns 11",
        "link set m0 master mgmt up",
    ]


def test_cables_with_data() -> None:
    assert holder.in_core("0123abcd", 5, [11, 12], with_data=True)[-4:] == [
        "link add d0 type veth peer name eth1 netns 11",
        "link set d0 master data up",
        "link add d1 type veth peer name eth1 netns 12",
        "link set d1 master data up",
    ]


def test_a_host_knows_all_hosts_by_their_data_addresses(tmp_path: Path) -> None:
    texts = host_files(tmp_path).texts(_USER)
    assert texts["etc/hosts"] == "127.0.0.1 localhost\n198.19.0.10 edge-1\n198.19.0.11 fog-1\n"
    assert texts["etc/resolv.conf"] == ""
    assert texts["sysctl"] == "net/ipv4/tcp_congestion_control cubic\n"


def test_data_device_only_if_it_is_there_from_the_start(tmp_path: Path) -> None:
    assert "eth1" not in host_files(tmp_path).network()
    assert "addr add 198.19.0.10/16 dev eth1\n" in host_files(tmp_path, "198.19.0.10/16").network()


def test_user_gets_a_home_of_its_own() -> None:
    machine = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
    text = files.passwd(machine, _USER, Path("/home/edge-1"))
    assert text == "root:x:0:0:root:/home/edge-1:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"


def test_fstab_hides_run_but_not_the_runs_directory() -> None:
    lines = [line.split() for line in host_files(Path("/run/e2c-dl/0123abcd")).fstab().splitlines()]
    own = "/run/e2c-dl/0123abcd/hosts/edge-1"
    bound = ["/run/e2c-dl/0123abcd", f"{own}/run/e2c-dl/0123abcd", "none", "bind", "0", "0"]
    hidden = [f"{own}/run", "/run", "none", "rbind", "0", "0"]
    assert lines.index(bound) < lines.index(hidden)
    assert lines[-1][:3] == ["e2cdl-0123abcd", "/proc", "proc"]


def test_fstab_escapes_blanks() -> None:
    lines = [line.split() for line in host_files(Path("/some where/0123abcd")).fstab().splitlines()]
    assert all(len(line) == 6 for line in lines)
    assert ["/some\\040where/0123abcd/hosts/edge-1/run", "/run"] in [line[:2] for line in lines]


def test_files_are_written_before_anything_is_mounted(tmp_path: Path) -> None:
    run = tmp_path / "0123abcd"
    host = host_files(run)
    host.write(_USER)
    sources = [line.split()[0] for line in (host.directory / "fstab").read_text().splitlines()]
    assert all(os.path.exists(source) for source in sources if source.startswith(str(tmp_path)))
    assert (host.directory / "etc/shadow").stat().st_mode & 0o777 == 0o600
    assert list(host.work.iterdir()) == []


def test_sshd_lets_in_by_key_only() -> None:
    lines = files.sshd_config(Path("/r"), {"PATH": "/bin", "E2CDL_RUN": "0123abcd"}).splitlines()
    assert {"AuthenticationMethods publickey", "PasswordAuthentication no", "UsePAM no"} <= set(lines)
    assert 'SetEnv "PATH=/bin" "E2CDL_RUN=0123abcd"' in lines


@pytest.mark.parametrize(
    ("cores", "quota_us", "period_us"), [(1.0, 5000, 5000), (0.5, 2500, 5000), (0.2, 1000, 5000), (0.1, 1000, 10_000)]
)
def test_quota_never_below_what_the_kernel_takes(cores: float, quota_us: int, period_us: int) -> None:
    assert cpu.Quota.of(cores) == cpu.Quota(quota_us=quota_us, period_us=period_us)


@pytest.mark.parametrize("cores", [0.0, -1.0, 0.0009])
def test_less_than_the_kernel_gives(cores: float) -> None:
    with pytest.raises(TestbedError, match=r"no less than 0\.001"):
        cpu.Quota.of(cores)


def test_cgroup_version_1_and_2_are_told_apart(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    (tmp_path / "cgroup.controllers").write_text("memory cpu pids\n")
    second = f"30 24 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    first = "31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    other = "32 24 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    mountinfo.write_text(other + second)
    assert cpu.controller(mountinfo) == cpu.Controller(version=2, root=tmp_path)
    mountinfo.write_text(other + first)
    assert cpu.controller(mountinfo) == cpu.Controller(version=1, root=Path("/sys/fs/cgroup/cpu,cpuacct"))
    mountinfo.write_text(other)
    assert cpu.controller(mountinfo) is None


def sysctl_tree(root: Path, rmem: str, wmem: str) -> Path:
    (root / "net/ipv4").mkdir(parents=True)
    for name, value in (("rmem", rmem), ("wmem", wmem)):
        (root / f"net/ipv4/tcp_{name}").write_text(f"{value}\n")
    return root


def test_buffers_grow_to_16_mib_and_are_never_shrunk(tmp_path: Path) -> None:
    root = sysctl_tree(tmp_path, "4096 131072 6291456", "4096 16384 33554432")
    settings = tcp.sysctls(Tcp(congestion_control="cubic", slow_start_after_idle=False), root)
    assert settings["net/ipv4/tcp_rmem"] == "4096 131072 16777216"
    assert settings["net/ipv4/tcp_wmem"] == "4096 16384 33554432"
    assert settings["net/ipv4/tcp_slow_start_after_idle"] == "0"
    assert settings["net/ipv4/tcp_congestion_control"] == "cubic"


def test_what_is_not_in_force_is_named() -> None:
    asked = {
        "net/ipv4/tcp_rmem": "1 2 3",
        "net/ipv4/tcp_congestion_control": "cubic",
        "net/ipv6/conf/all/disable_ipv6": "1",
    }
    in_force = {"net/ipv4/tcp_rmem": "1\t2\t3", "net/ipv4/tcp_congestion_control": "bbr"}
    assert tcp.refused(asked, in_force) == {"net/ipv4/tcp_congestion_control": "bbr"}
    assert tcp.refused({"net/ipv4/tcp_rmem": "1 2 3"}, {}) == {"net/ipv4/tcp_rmem": "absent"}


def test_ssh_keeps_arguments_apart() -> None:
    argv = programs.ssh_argv(_REACHED, "echo", "a b", "$HOME")
    assert argv[-3:] == ["root@198.18.1.10", "--", "echo 'a b' '$HOME'"]
    assert argv[argv.index("-i") + 1] == "/key"
    assert programs.ssh_argv(_REACHED)[-1] == "root@198.18.1.10"


def test_entering_takes_all_namespaces_or_only_the_network() -> None:
    everything = ["nsenter", "--target", "7", "--mount", "--uts", "--ipc", "--net", "--pid", "--", "id"]
    assert programs.enter(_REACHED, ["id"]) == everything
    assert programs.enter_network(_REACHED, ["id"]) == ["nsenter", "--target", "7", "--net", "--", "id"]


@pytest.mark.parametrize(("version", "file", "said"), [(2, "cpu.max", "2500 5000"), (1, "cpu.cfs_quota_us", "2500")])
def test_a_group_is_limited_before_anything_moves_into_it(
    version: int, file: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain files in place of the kernel's: what is written where, in both versions."""
    monkeypatch.setattr(cpu, "controller", lambda: cpu.Controller(version=version, root=tmp_path))
    assert cpu.make_group("0123abcd", "edge-1", 0.5, 4711) == ()
    group = tmp_path / "e2cdl-0123abcd" / "edge-1"
    assert (group / file).read_text() == said
    assert (group / "cgroup.procs").read_text() == "4711"
    enabled = [(place / "cgroup.subtree_control").is_file() for place in (tmp_path, group.parent, group)]
    assert enabled == ([True, True, False] if version == 2 else [False, False, False])


@pytest.mark.parametrize(("own", "first"), [(None, []), ("", []), (":/opt/bin:", ["/opt/bin"]), ("/sbin", ["/sbin"])])
def test_programs_are_found_on_the_systems_path_and_never_by_chance_where_one_is(
    own: str | None, first: list[str]
) -> None:
    places = with_system(own).split(":")
    assert places[: len(first)] == first
    assert sorted(places) == sorted({*first, *SYSTEM_PATH.split(":")})
