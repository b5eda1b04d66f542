"""TAP devices with offloads, made inside hosts' network namespaces.

The relay enters a host's network namespace, makes the device there under its final name, and comes back: nothing ever
stands in the machine's own namespace, and the device disappears when the relay's descriptor is closed, however it ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2c_dl.emulation.relay.config import RelayHost
from e2c_dl.emulation.relay.frames import VNET_BYTES
from e2c_dl.errors import EmulationError

TUN = "/dev/net/tun"

RING_FRAMES = 4096  # that wait in the kernel for the relay to read them: more than a host sends in a late wake-up

# linux/if_tun.h
_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_OFFLOAD_CSUM_TSO4_TSO6 = 0x07
_CLONE_NEWNET = 0x40000000
_TX_DROPPED = 11  # column of /proc/net/dev


def open_tap(host: RelayHost) -> int:
    """A non-blocking descriptor of ``host``'s new interface: addressed, up, checksum and TCP segmentation offloaded.

    Raises: EmulationError.
    """
    with _inside(host):  # a device appears in the namespace of the thread that makes it
        try:
            descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # the relay reads until nothing is left
        except OSError as error:
            raise EmulationError(
                f"relay: cannot open {TUN} ({error.strerror}); load the kernel's tun module (modprobe tun) and "
                "let this user read and write that device"
            ) from error
        try:
            _make(descriptor, host)
            _configure(host)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def overruns(hosts: Sequence[RelayHost]) -> dict[str, int]:
    """Frames of each host that found its ring full: lost before the relay could count them. Gone hosts: absent."""
    found: dict[str, int] = {}
    for host in hosts:
        try:
            lines = Path(f"/proc/{host.netns_pid}/net/dev").read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for name, _, counters in (line.partition(":") for line in lines):
            if name.strip() == host.device:
                found[host.name] = int(counters.split()[_TX_DROPPED])
    return found


def _make(descriptor: int, host: RelayHost) -> None:
    request = struct.pack("16sH22x", host.device.encode(), _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, request)
        fcntl.ioctl(descriptor, _TUNSETVNETHDRSZ, struct.pack("i", VNET_BYTES))
        fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _OFFLOAD_CSUM_TSO4_TSO6)
    except OSError as error:
        raise EmulationError(
            f"relay: cannot make {host.device} on {host.name} ({error.strerror}); "
            "remove an interface of that name there; it needs CAP_NET_ADMIN in the host's user namespace"
        ) from error


def _configure(host: RelayHost) -> None:
    batch = (
        f"link set dev {host.device} address {host.mac} txqueuelen {RING_FRAMES}\n"
        f"address add {host.address} dev {host.device}\n"
        f"link set dev {host.device} up\n"
    )
    try:
        subprocess.run(["ip", "-batch", "-"], input=batch, text=True, capture_output=True, check=True)
    except FileNotFoundError as error:
        raise EmulationError("relay: there is no ip command; install the package iproute2") from error
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.split())
        raise EmulationError(
            f"relay: cannot configure {host.device} on {host.name}: {said}; check its address and MAC"
        ) from error


@contextmanager
def _inside(host: RelayHost) -> Iterator[None]:
    """This thread is in the network namespace of ``host`` until the block ends."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            there = os.open(f"/proc/{host.netns_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise EmulationError(
                f"relay: process {host.netns_pid} of {host.name} is gone ({error.strerror}); bring the host up again"
            ) from error
        try:
            _enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(home)  # else the next host's device would be made here
    finally:
        os.close(home)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
    if libc.setns(namespace, _CLONE_NEWNET):
        reason = os.strerror(ctypes.get_errno())
        raise EmulationError(
            f"relay: cannot enter a network namespace ({reason}); run as root, or in the "
            "user namespace that owns it, with CAP_SYS_ADMIN there"
        )
