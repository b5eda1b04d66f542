"""The models one can train, each with the same initial parameters on every rank.

There is no batch normalisation and no dropout: with them, a step on several batches would not equal the step on all of
them together, and no distributed result could be checked against one process. Activations are smooth for the same
reason: a ReLU turns a difference in the last bit of its input, which the order of a sum makes, into a jump of the
gradient, and after 20 steps in float32 two correct runs may differ by percents.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
from torch import nn

from e2c_dl.errors import InputError


def cnn() -> nn.Module:
    """A convolutional network for 8 x 8 grey images of 10 classes: 109,914 parameters, input (n, 1, 8, 8).

    About half of them stand in convolutions, so that much of backward is left when the first buckets are sent.
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.Tanh(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.Tanh(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.Tanh(),
        nn.Conv2d(64, 64, kernel_size=3, padding=1, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 48),
        nn.Tanh(),
        nn.Linear(48, 10),
    )


_MODELS: dict[str, Callable[[], nn.Module]] = {"cnn": cnn}


def build(name: str, *, seed: int, dtype: torch.dtype) -> nn.Module:
    """The model called ``name``, initialised by ``seed`` alone; leaves torch's global generator as it was.

    Initial values are drawn in float32, so that runs in both precisions start from the same point.

    Raises: InputError, naming the closest match, if there is no such model.
    """
    if name not in _MODELS:
        close = difflib.get_close_matches(name, _MODELS, n=1) or sorted(_MODELS)
        raise InputError(f"model {name!r} does not exist; write {' or '.join(close)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _MODELS[name]()
        model.apply(_initialise)
        return model.to(dtype)


def _initialise(layer: nn.Module) -> None:
    """Weights that keep the variance of signals through rectifiers. Source: He et al., ICCV 2015, Eq. (10)."""
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def dtype_of(name: str) -> torch.dtype:
    """torch's float32 or float64. Raises: InputError for anything else."""
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise InputError(f"dtype {name!r} is not trained in; write float32 or float64")
    return known[name]
