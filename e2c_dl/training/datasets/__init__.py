"""The data sets one can train on, split into training and test samples the same way on every host.

Nothing is downloaded: digits comes with scientific Python, teacher is drawn from a fixed seed, all others are read from
``data_dir``, a folder that stands at the same path on every host that trains.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from e2c_dl.errors import InputError
from e2c_dl.scenario.data import IN_FOLDERS, parse_dataset
from e2c_dl.training.datasets import cifar, folders, imported
from e2c_dl.training.datasets.built_in import digits, teacher
from e2c_dl.training.datasets.model import Dataset


@lru_cache(maxsize=2)  # the ranks of a virtual world share one: it is read only
def load(name: str, *, dtype: str, data_dir: str | None = None, code: str | None = None) -> Dataset:
    """The data set called ``name``, spelled as in :mod:`e2c_dl.scenario.data`, images in ``dtype``.

    ``code``: the folder of the scenario's own, where one by import path is looked for first.

    Raises: InputError: no such data set, or no ``data_dir`` where it needs one; TrainingError: files are missing or
    damaged.
    """
    try:
        source = parse_dataset(name)
    except ValueError as error:
        raise InputError(f"dataset: {error}") from error
    if source.kind in IN_FOLDERS:
        if data_dir is None:
            raise InputError(f"dataset {name} is read from a folder; name it: data_dir: /the/folder/on/every/host")
        folder = Path(data_dir).expanduser()
        if source.kind == "images":
            return folders.load(folder, source.pixels, np.dtype(dtype))
        return cifar.load(folder, source.kind, np.dtype(dtype))
    if data_dir is not None:  # ignored, it would look as if the folder had been read
        raise InputError(f"dataset {name} is read from no folder; remove data_dir")
    if source.kind == "teacher":
        return teacher(source.samples, source.shape, source.classes, np.dtype(dtype))
    if source.kind == "imported":
        return imported.load(source.import_path, np.dtype(dtype), code)
    return digits(np.dtype(dtype))
