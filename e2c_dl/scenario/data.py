"""Data sets and their division over the ranks, as a scenario spells them.

::

    dataset     digits   cifar10   cifar100                       fixed sizes
                images:64                                         a folder of images per class, cut to 64 x 64 pixels
                teacher:5000:3x32x32:10                           5000 random samples of 3 x 32 x 32, 10 classes
                my_package.module:attribute                       any torch.utils.data.Dataset
    partition   iid   classes:0.1   sizes:0.5                     Dirichlet's alpha: the smaller, the less even

The parsers raise ValueError, "problem; remedy", as those of :mod:`e2c_dl.units` do.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

NAMED_DATASETS = ("digits", "cifar10", "cifar100")
DATASETS = (*NAMED_DATASETS, "images:SIZE", "teacher:SAMPLES:SHAPE:CLASSES")
IN_FOLDERS = frozenset({"cifar10", "cifar100", "images"})
"""The kinds of data set that are read from ``data_dir``."""

PARTITIONS = ("iid", "classes:ALPHA", "sizes:ALPHA")

_MAX_PIXELS = 4096  # along one side of an image
_MAX_VALUES = 2**31  # in a synthetic data set: 16 GiB as float64
_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_TEACHER = re.compile(r"(\d{1,10}):(\d{1,5})x(\d{1,5})x(\d{1,5}):(\d{1,5})")
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?")


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """``kind`` is a name of :data:`NAMED_DATASETS`, or images, teacher, imported."""

    kind: str
    pixels: int = 0  # images: height and width
    samples: int = 0  # teacher
    shape: tuple[int, int, int] = (0, 0, 0)  # teacher: channels, height, width
    classes: int = 0  # teacher
    import_path: str = ""  # imported


@dataclass(frozen=True, kw_only=True)
class Partition:
    """``kind`` is iid, classes or sizes."""

    kind: str
    alpha: float = math.inf  # of the Dirichlet distribution; iid is its limit


def is_import_path(text: str) -> bool:
    """True if ``text`` reads like ``package.module:attribute``."""
    return _IMPORT_PATH.fullmatch(text) is not None


def parse_dataset(text: str) -> DataSource:
    """The data set that ``text`` names. Raises: ValueError."""
    if text in NAMED_DATASETS:
        return DataSource(kind=text)
    kind, _, rest = text.partition(":")
    if kind == "images":
        # Python's int() reads digits of all scripts, and refuses thousands of them.
        if not (rest.isascii() and rest.isdigit() and 1 <= int(rest[:9]) <= _MAX_PIXELS):
            raise ValueError(f"{text[:60]!r} names no size; write pixels from 1 to {_MAX_PIXELS}, such as images:64")
        return DataSource(kind=kind, pixels=int(rest))
    if kind == "teacher":
        return _teacher(text, rest)
    if is_import_path(text):
        return DataSource(kind="imported", import_path=text)
    raise ValueError(f"{text[:60]!r} is not known; write {', '.join(DATASETS)}, or package.module:attribute")


def _teacher(text: str, rest: str) -> DataSource:
    example = "such as teacher:5000:3x32x32:10"
    match = _TEACHER.fullmatch(rest)
    if match is None:
        form = f"samples, channels x height x width, classes, {example}"
        raise ValueError(f"{text[:60]!r} is not understood; write {form}")
    samples, channels, height, width, classes = (int(group) for group in match.groups())
    values = samples * channels * height * width
    if not 0 < values <= _MAX_VALUES or samples < 10 or classes < 2:
        limits = f"at least 10 samples, 2 classes and at most {_MAX_VALUES} values"
        raise ValueError(f"{text[:60]!r} is out of range; write {limits}, {example}")
    return DataSource(kind="teacher", samples=samples, shape=(channels, height, width), classes=classes)


def parse_partition(text: str) -> Partition:
    """The partition that ``text`` names. Raises: ValueError."""
    if text == "iid":
        return Partition(kind="iid")
    kind, _, alpha = text.partition(":")
    if kind not in ("classes", "sizes"):
        raise ValueError(f"{text[:60]!r} is not known; write {', '.join(PARTITIONS)}")
    if _NUMBER.fullmatch(alpha) is None or not 0.001 <= float(alpha) <= 1_000_000:
        raise ValueError(f"{text[:60]!r} has no usable alpha; write a number from 0.001 to 1000000, such as {kind}:0.5")
    return Partition(kind=kind, alpha=float(alpha))
