"""Data sets: digits, CIFAR from its pickles and nothing else from them, folders of images, teacher, a user's own."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from e2c_dl.errors import E2cDlError, InputError, TrainingError
from e2c_dl.training import datasets
from e2c_dl.training.datasets.model import Dataset


def load(name: str, folder: Path | None = None, dtype: str = "float64") -> Dataset:
    return datasets.load(name, dtype=dtype, data_dir=None if folder is None else str(folder))


def all_of(images: object, count: int) -> np.ndarray:
    return images[np.arange(count)]  # type: ignore[index, no-any-return]


def test_digits_are_all_there_normalised_and_split() -> None:
    data = load("digits", dtype="float32")
    assert (len(data.train_labels), len(data.test_labels), data.classes) == (1438, 359, 10)
    assert data.shape == (1, 8, 8)
    images = all_of(data.train_images, 1438)
    assert images.dtype == np.float32
    assert abs(images.mean()) < 1e-5
    assert set(data.test_labels) == set(range(10))


def test_teacher_is_as_large_as_asked_the_same_every_time_and_uses_its_classes() -> None:
    data, again = load("teacher:1000:2x3x4:5"), load("teacher:1000:2x3x4:5")
    assert data.train_images.shape == (800, 2, 3, 4)
    assert data.test_images.shape == (200, 2, 3, 4)
    assert np.array_equal(all_of(data.train_images, 800), all_of(again.train_images, 800))
    assert np.array_equal(data.train_labels, again.train_labels)
    assert np.bincount(data.train_labels, minlength=5).min() > 40
    assert not np.array_equal(load("teacher:1000:2x3x4:6").train_labels, data.train_labels)


def write_cifar10(folder: Path) -> list[np.ndarray]:
    """A CIFAR-10 of 8 images per file; their bytes by file, test_batch last."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    written = []
    for name in [*(f"data_batch_{index}" for index in range(1, 6)), "test_batch"]:
        data = random.integers(0, 256, (8, 3072), dtype=np.uint8)
        content = {b"batch_label": b"x", b"labels": [int(label) for label in data[:, 0] % 10], b"data": data}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        written.append(data)
    return written


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-py"])
def test_cifar10_is_read_from_its_folder_or_the_one_around_it(tmp_path: Path, inside: str) -> None:
    *training, test = write_cifar10(tmp_path / "data" / inside)
    data = load("cifar10", tmp_path / "data")
    raw = np.concatenate(training).reshape(40, 3, 32, 32).astype(float)
    expected = (raw - raw.mean(axis=(0, 2, 3), keepdims=True)) / raw.std(axis=(0, 2, 3), keepdims=True)
    assert np.allclose(all_of(data.train_images, 40), expected, rtol=1e-10)
    assert np.array_equal(data.train_labels, raw[:, 0, 0, 0] % 10)
    assert np.array_equal(data.test_labels, test[:, 0] % 10)
    where = np.array([5, 3, 5])
    assert np.array_equal(data.train_images[where], all_of(data.train_images, 40)[where])
    assert load("cifar10", tmp_path / "data", "float32").train_images[where].dtype == np.float32


def test_cifar100_has_its_fine_labels(tmp_path: Path) -> None:
    data = np.zeros((3, 3072), dtype=np.uint8)
    for name in ("train", "test"):
        (tmp_path / name).write_bytes(
            pickle.dumps({b"data": data, b"fine_labels": [99, 0, 7], b"coarse_labels": [1] * 3})
        )
    came = load("cifar100", tmp_path)
    assert (came.train_labels.tolist(), came.classes) == ([99, 0, 7], 100)


def python2_pickle(data: np.ndarray, labels: list[int]) -> bytes:
    """The files as Python 2 wrote them: text is bytes, and NumPy's parts have their old names."""
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    kind = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"(K%cM\x00\x0ct" % len(data)
    state = b"(K\x01" + shape + kind + b"I00\nT" + data.nbytes.to_bytes(4, "little") + data.tobytes() + b"tb"
    numbers = b"](" + b"".join(b"K%c" % label for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + state + b"U\x06labels" + numbers + b"u."


def test_files_written_by_python_2_are_read(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "data")
    data = np.random.default_rng(3).integers(0, 256, (2, 3072), dtype=np.uint8)
    (tmp_path / "data" / "test_batch").write_bytes(python2_pickle(data, [7, 2]))
    came = load("cifar10", tmp_path / "data")
    assert came.test_labels.tolist() == [7, 2]
    assert np.corrcoef(all_of(came.test_images, 2)[:, 0].ravel(), data[:, :1024].ravel())[0, 1] > 0.999999


class Attack:
    """A pickle of it writes a file when it is read as pickles usually are."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> object:
        return (os.mkdir, (str(self._path),))


def test_a_program_in_a_cifar_file_is_not_run(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "data")
    content = {b"data": np.zeros((1, 3072), dtype=np.uint8), b"labels": [1], b"more": Attack(tmp_path / "made")}
    (tmp_path / "data" / "data_batch_3").write_bytes(pickle.dumps(content))
    with pytest.raises(TrainingError, match="data_batch_3: no file of dataset cifar10: it asks for posix.mkdir"):
        load("cifar10", tmp_path / "data")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no file of dataset cifar10"),
        (pickle.dumps([1]), "it holds no images of 3072 bytes"),
        (pickle.dumps({b"data": np.zeros((2, 3072))}), "it holds no images of 3072 bytes"),
        (pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}), "it holds no label for each image"),
        (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}), "it holds no label for each image"),
    ],
)
def test_damaged_cifar_files_are_named(tmp_path: Path, content: bytes, why: str) -> None:
    write_cifar10(tmp_path / "data")
    (tmp_path / "data" / "test_batch").write_bytes(content)
    with pytest.raises(TrainingError, match=f"test_batch: .*{why}.*unpack the python version"):
        load("cifar10", tmp_path / "data")


def write_images(folder: Path, classes: dict[str, int], colour: int = 0) -> None:
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for index in range(count):
            Image.new("RGB", (40 + index, 20), (colour, index, 255)).save(folder / name / f"{index}.png")


def test_folders_of_images_are_split_cut_and_normalised(tmp_path: Path) -> None:
    write_images(tmp_path, {"cat": 6, "ape": 4})
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    data = load("images:16", tmp_path)
    assert (len(data.train_labels), len(data.test_labels), data.classes, data.shape) == (8, 2, 2, (3, 16, 16))
    assert sorted([*data.train_labels, *data.test_labels]) == [0] * 4 + [1] * 6
    image = data.train_images[np.array([0])][0]
    assert np.allclose(image[0], -0.485 / 0.229)
    assert np.allclose(image[2], (1 - 0.406) / 0.225)


def test_folders_train_and_val_are_the_split(tmp_path: Path) -> None:
    write_images(tmp_path / "train", {"a": 2, "b": 1})
    write_images(tmp_path / "val", {"a": 1, "b": 3})
    data = load("images:8", tmp_path)
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([0, 0, 1], [0, 1, 1, 1])


def broken_image(folder: Path) -> None:
    write_images(folder, {"a": 3, "b": 3})
    for path in folder.glob("*/*.png"):
        path.write_bytes(b"no image")


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda folder: None, "cannot be read: No such file or directory"),
        (lambda folder: write_images(folder, {"a": 3}), "holds 1 folders; put the images into one folder per class"),
        (lambda folder: write_images(folder, {"a": 3, "b": 0}), "b: holds no image"),
        (broken_image, r"\.png: no image that can be read"),
    ],
)
def test_folders_without_images_are_refused(tmp_path: Path, prepare: object, why: str) -> None:
    prepare(tmp_path / "data")  # type: ignore[operator]
    with pytest.raises(TrainingError, match=why):
        load("images:8", tmp_path / "data").train_images[np.array([0])]


MODULE = """
import numpy as np, torch
class Numbers(torch.utils.data.Dataset):
    def __init__(self, first=0):
        self.first = first
    def __len__(self):
        return 10
    def __getitem__(self, index):
        return torch.full((2, 3), float(self.first + index)), index % 3
class Targets(Numbers):
    targets = [2] * 10
    def __getitem__(self, index):
        return np.array([index, index]), None
def pair():
    return Numbers(), Numbers(100)
def stream():
    return iter([])
class Unlabelled(Numbers):
    def __getitem__(self, index):
        return index
class Fractions(Numbers):
    targets = [0.5] * 10
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_data.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "their_data", raising=False)


@pytest.mark.usefixtures("mine")
def test_a_data_set_of_ones_own_is_split_like_all() -> None:
    data = load("their_data:Numbers", dtype="float32")
    assert (data.shape, data.classes, len(data.train_labels), len(data.test_labels)) == ((2, 3), 3, 8, 2)
    images = all_of(data.train_images, 8)
    assert images.dtype == np.float32
    assert sorted([*images[:, 0, 0], *all_of(data.test_images, 2)[:, 0, 0]]) == list(range(10))
    assert np.array_equal(images[:, 0, 0] % 3, data.train_labels)


@pytest.mark.usefixtures("mine")
def test_a_pair_of_ones_own_is_the_split_and_targets_spare_reading() -> None:
    data = load("their_data:pair")
    assert all_of(data.test_images, 10)[:, 0, 0].tolist() == list(range(100, 110))
    data = load("their_data:Targets")
    assert set(data.train_labels) == {2}
    assert np.issubdtype(all_of(data.train_images, 8).dtype, np.integer)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("their_data:stream", "without length or items; return a map-style Dataset"),
        ("their_data:Unlabelled", "its items are not (sample, class)"),
        ("their_data:Fractions", "its classes are not one whole number from 0 per sample"),
        ("their_data:Missing", "Missing is not there"),
        ("digit", "'digit' is not known; write digits, "),
        ("cifar10", "dataset cifar10 is read from a folder; name it: data_dir"),
    ],
)
def test_what_is_wrong_with_a_data_set_is_told(name: str, why: str) -> None:
    with pytest.raises(InputError, match=re.escape(why)):
        load(name)


def test_a_folder_nobody_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(E2cDlError, match="dataset digits is read from no folder; remove data_dir"):
        load("digits", tmp_path)


def test_images_too_few_to_keep_one_for_testing_are_refused_before_training(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "1.png")
    with pytest.raises(TrainingError, match="holds 2 images, a fifth of them for testing"):
        load("images:8", tmp_path)
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "2.png")
    assert len(load("images:8", tmp_path).test_labels) == 1
