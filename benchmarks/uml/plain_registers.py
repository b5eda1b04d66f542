"""Executes a program to which the kernel refuses ``ptrace(PTRACE_GETREGSET)``: User-Mode Linux on processors with AMX.

User-Mode Linux 6.1 keeps 2.7 KB of extended registers for each of its processes. On processors with AMX the host has 11
KB, insists on all of them, and the machine dies with its first process. Refused, it saves the plain registers (x87 and
SSE) alone; whoever runs in it must keep off AVX, see :data:`WITHOUT_AVX`.

    python -m benchmarks.uml.plain_registers PROGRAM [ARGUMENT ...]
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

_OFF = ("XSAVE", "XSAVEC", "AVX", "AVX2", "AVX_Fast_Unaligned_Load", "AVX512F", "AVX512VL", "AVX512BW")
WITHOUT_AVX = "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in _OFF)
"""For GLIBC_TUNABLES of all programs in the machine: every page fault clears what only AVX knows of a register."""

_SYS_PTRACE, _GETREGSET, _AUDIT_ARCH_X86_64 = 101, 0x4204, 0xC000003E
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # classic BPF: load a word, jump if equal, return
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def needed() -> bool:
    """Whether this machine's processor has AMX."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    return any("amx_tile" in line.split() for line in cpuinfo.splitlines() if line.startswith("flags"))


def refuse() -> None:
    """From now on this process, and what it executes, cannot read extended registers of others. Raises: OSError."""
    program = [  # offsets in struct seccomp_data: 0 the call, 4 the architecture, 16 the first argument
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, 5, _AUDIT_ARCH_X86_64),
        (_LOAD, 0, 0, 0),
        (_EQUAL, 0, 3, _SYS_PTRACE),
        (_LOAD, 0, 0, 16),
        (_EQUAL, 0, 1, _GETREGSET),
        (_RETURN, 0, 0, _ERRNO | errno.EIO),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    pointed = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, pointed, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp was refused")


if __name__ == "__main__":
    refuse()
    os.execvp(sys.argv[1], sys.argv[1:])
