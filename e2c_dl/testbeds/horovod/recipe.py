"""How Horovod is built for torch alone, over Gloo: values only; nothing of its source is edited.

Its CMake files ask for C++14, with which the headers of newer versions of torch do not compile. A toolchain file
says what C++14 is to mean::

    CMAKE_PROJECT_INCLUDE                    this very file, read again once the project's languages are known
    CMAKE_CXX14_STANDARD_COMPILE_OPTION      -std=c++20

MPI and NCCL are left out: a host needs neither, and collectives of GPUs go over Gloo as well, through memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VERSION = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"  # of the source distribution of PyPI
SOURCE = f"horovod-{VERSION}.tar.gz"

TOOLCHAIN = """\
set(CMAKE_PROJECT_INCLUDE "${CMAKE_CURRENT_LIST_FILE}")
set(CMAKE_CXX14_STANDARD_COMPILE_OPTION "-std=c++20")
"""

RUNS_WITH = ("cloudpickle", "psutil", "pyyaml", "packaging", "cffi")  # as its metadata says
BUILDS_WITH = (
    "torch",
    "numpy",
    *RUNS_WITH,
    "setuptools",
)  # of numpy, which torch's headers' check needs, it says nothing

TRIED = "import horovod.torch as hvd; assert hvd.gloo_built(); hvd.init(); assert hvd.size() == 1; hvd.shutdown()"
"""A program that ends with 0 where a wheel works: it loads what was compiled, and starts its engine alone."""


def environment(toolchain: Path, jobs: int, given: Mapping[str, str]) -> dict[str, str]:
    """``given`` and what the build reads, compiling ``jobs`` files at a time; settings of other builds are left out."""
    kept = {name: value for name, value in given.items() if not name.startswith(("HOROVOD_", "CMAKE_"))}
    return kept | {
        "CMAKE_TOOLCHAIN_FILE": str(toolchain),
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",  # CMake 4 refuses older policies, which Gloo's files ask for
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_CPU_OPERATIONS": "GLOO",
        "LDFLAGS": "-Wl,--strip-debug",  # 1 MB in place of 19
        "MAKEFLAGS": f"-j{jobs}",
        "PYTHONUNBUFFERED": "1",  # else progress arrives when all is done
    }


def requirement() -> str:
    """Line of a requirements file: the one source distribution whose content is known."""
    return f"horovod=={VERSION} --hash=sha256:{SHA256}\n"
