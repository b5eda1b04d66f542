"""Images in files, one folder per class, as ImageNet is usually laid out; a file is read when a batch needs it.

::

    data_dir/train/CLASS/*.jpg   data_dir/val/CLASS/*.jpg       both there: they are the split
    data_dir/CLASS/*.jpg                                        else: a fifth is kept for testing

Classes are numbered in the order of their folders' names. An image is scaled so that its shorter side has ``pixels``
pixels, cut to its middle square, and normalised by the mean and deviation that are customary for ImageNet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from e2c_dl.errors import TrainingError
from e2c_dl.training.datasets.model import Dataset, Labels, Positions, normalised, split

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp"})
_MEAN = 255 * np.array([0.485, 0.456, 0.406])  # of bytes, as images are read
_DEVIATION = 255 * np.array([0.229, 0.224, 0.225])


@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """Images by position, read from their files on every access; in colour, ``pixels`` high and wide."""

    paths: Sequence[Path]
    pixels: int
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.paths), 3, self.pixels, self.pixels)

    def __getitem__(self, positions: Positions, /) -> npt.NDArray[Any]:
        """Raises: TrainingError, if a file is no image that can be read."""
        raw = np.stack([_read(self.paths[position], self.pixels) for position in positions])
        return normalised(raw, _MEAN, _DEVIATION, self.dtype)


def load(data_dir: Path, pixels: int, dtype: np.dtype[Any]) -> Dataset:
    """The images under ``data_dir``. Raises: TrainingError, if there are none, or no two classes."""
    train_dir, test_dir = data_dir / "train", data_dir / "val"
    if train_dir.is_dir() and test_dir.is_dir():
        classes = _classes(train_dir)
        if _classes(test_dir) != classes:  # labels are positions among the names
            raise TrainingError(f"{test_dir}: its folders are not those of {train_dir}; give both the same classes")
        train, test = _files(train_dir, classes), _files(test_dir, classes)
    else:
        classes = _classes(data_dir)
        paths, labels = _files(data_dir, classes)
        train, test = (([paths[i] for i in where], labels[where]) for where in split(len(paths)))
        if not test[0]:  # nothing could be evaluated, which would be found out after training
            raise TrainingError(f"{data_dir}: holds {len(paths)} images, a fifth of them for testing; put more there")
    return Dataset(
        train_images=ImageFiles(paths=train[0], pixels=pixels, dtype=dtype), train_labels=train[1],
        test_images=ImageFiles(paths=test[0], pixels=pixels, dtype=dtype), test_labels=test[1],
        classes=len(classes),
    )  # fmt: skip


def _classes(folder: Path) -> list[str]:
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_dir())  # file systems list in any order
    except OSError as error:
        raise TrainingError(
            f"{folder}: cannot be read: {error.strerror}; name a folder of images as data_dir"
        ) from error
    if len(names) < 2:  # with one class there is nothing to learn
        raise TrainingError(f"{folder}: holds {len(names)} folders; put the images into one folder per class")
    return names


def _files(folder: Path, classes: Sequence[str]) -> tuple[list[Path], Labels]:
    """(paths, labels), class by class, sorted by name: the same on every host."""
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        own = sorted(path for path in (folder / name).iterdir() if path.suffix.lower() in SUFFIXES)
        if not own:
            raise TrainingError(f"{folder / name}: holds no image; put {', '.join(sorted(SUFFIXES))} files there")
        paths += own
        labels += [label] * len(own)
    return paths, np.array(labels, dtype=np.int64)


def _read(path: Path, pixels: int) -> npt.NDArray[np.uint8]:
    """(3, ``pixels``, ``pixels``)."""
    try:
        with Image.open(path) as image:
            square = ImageOps.fit(image.convert("RGB"), (pixels, pixels), method=Image.Resampling.BILINEAR)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise TrainingError(
            f"{path}: no image that can be read: {error}; replace or remove it on every host"
        ) from error
    values: npt.NDArray[np.uint8] = np.asarray(square, dtype=np.uint8).transpose(2, 0, 1)
    return values
