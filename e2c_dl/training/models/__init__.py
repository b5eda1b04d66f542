"""The models one can train, with the same initial parameters on every rank.

There is no batch normalisation and no dropout: with them, a step on several batches would not equal the step on all of
them together, and no distributed result could be checked against one process. Activations are smooth for the same
reason: a ReLU turns a difference in the last bit of its input, which the order of a sum makes, into a jump of the
gradient, and after 20 steps in float32 two correct runs may differ by percents.

A model of one's own, by import path, may do otherwise. Only its parameters that require a gradient are trained and
exchanged: what it keeps in buffers, such as the running means of batch normalisation, stays on each rank.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
from torch import nn

from e2c_dl.errors import InputError
from e2c_dl.scenario.data import is_import_path
from e2c_dl.training.imported import call
from e2c_dl.training.models.plain import cnn, mlp
from e2c_dl.training.models.resnet import resnet
from e2c_dl.training.models.transformer import transformer

Shape = tuple[int, ...]
"""Of one sample: (channels, height, width) for all models that come with this package."""

DIGITS_SHAPE, DIGITS_CLASSES = (1, 8, 8), 10

_MODELS: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    "cnn": cnn, "mlp": mlp, "resnet": resnet, "transformer": transformer,
}  # fmt: skip
NAMES = tuple(sorted(_MODELS))


def build(
    name: str, *, seed: int, dtype: torch.dtype, shape: Shape = DIGITS_SHAPE, classes: int = DIGITS_CLASSES,
    code: str | None = None,
) -> nn.Module:  # fmt: skip
    """The model called ``name``, for samples of ``shape`` and ``classes`` classes, initialised by ``seed`` alone.

    Leaves torch's global generator as it was. Initial values are drawn in float32, so that runs in both precisions
    start from the same point. A model by import path is called without arguments, and initialises itself; it is looked
    for in ``code``, the folder of the scenario's own, first.

    Raises: InputError: no such model (names the closest match), or it cannot be built for such samples.
    """
    if not is_import_path(name) and name not in _MODELS:
        close = difflib.get_close_matches(name, _MODELS, n=1) or NAMES
        raise InputError(f"model {name!r} does not exist; write {' or '.join(close)}, or package.module:attribute")
    with torch.random.fork_rng(devices=[]):  # no devices: by default it forks those of all GPUs
        torch.manual_seed(seed)
        model = _imported(name, code) if is_import_path(name) else _own(name, shape, classes)
        return model.to(dtype)


def _own(name: str, shape: Shape, classes: int) -> nn.Module:
    if len(shape) != 3:
        what = f"samples of shape {shape} are no images"
        raise InputError(f"model {name}: {what}; name a model of your own by import path")
    channels, height, width = shape  # named for the type checker, which does not count a tuple
    return _MODELS[name]((channels, height, width), classes)


def _imported(path: str, code: str | None) -> nn.Module:
    model = call(path, "model", code)
    if not isinstance(model, nn.Module):  # before the call of .to() that would fail without its name
        raise InputError(f"model {path}: it returns a {type(model).__name__}, no torch.nn.Module; return one")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"model {path}: no parameter of it requires a gradient; there is nothing to train")
    return model


def dtype_of(name: str) -> torch.dtype:
    """torch's float32 or float64. Raises: InputError for anything else."""
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise InputError(f"dtype {name!r} is not trained in; write float32 or float64")
    return known[name]
