"""What every compressor must obey: nothing is lost, whatever is sent, and sizes are those of shapes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn
from quadratic import Problem, Quadratic, difference

from e2c_dl import strategies
from e2c_dl.errors import InputError, TrainingError
from e2c_dl.strategies.compression import COMPRESSORS, compressed

Vector = npt.NDArray[np.floating]
EXACT = ("fp16", "int8", "topk")
"""Those of which what is sent and what is kept are together what was to be sent, exactly."""

vectors = st.integers(1, 400).flatmap(
    lambda length: drawn.arrays(
        st.sampled_from([np.float32, np.float64]), (3, length),
        elements=st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False),
    )
)  # fmt: skip
"""Three messages of one stream."""


@pytest.mark.parametrize("name", COMPRESSORS)
@given(messages=vectors)
@settings(max_examples=60, deadline=None)
def test_what_is_sent_and_what_is_kept_are_what_was_to_be_sent(name: str, messages: Vector) -> None:
    compressor = COMPRESSORS[name]()
    kept = np.zeros_like(messages[0])
    for values in messages:
        owed = values + kept
        arrays = compressor.encode(values, adds=True)
        sent = compressor.decode(arrays, len(values), str(values.dtype))
        residual = getattr(compressor, "_residual", None)
        kept = np.zeros_like(values) if residual is None else residual
        if name in EXACT:
            assert np.array_equal(sent.astype(np.float64) + kept, owed.astype(np.float64))
        else:
            assert np.abs(sent + kept - owed).max() <= 1e-5 * max(np.abs(owed).max(), 1e-30)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(exponents=st.lists(st.floats(-0.9, 0.99), min_size=1, max_size=20), seed=st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_nothing_overflows_or_is_lost_of_gradients_of_any_size(
    name: str, dtype: type, exponents: list[float], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    largest = np.finfo(dtype).maxexp
    values = np.ldexp(draw.uniform(0.5, 1, len(exponents)), [int(each * largest) for each in exponents]).astype(dtype)
    compressor = COMPRESSORS[name]()
    sent = compressor.decode(compressor.encode(values, adds=True), len(values), str(values.dtype))
    assert np.isfinite(sent).all()
    assert np.array_equal(sent + compressor._residual, values)


@pytest.mark.parametrize("name", [name for name in COMPRESSORS if name != "polyline"])  # its sizes are of values
@pytest.mark.parametrize("adds", [True, False])
@given(messages=vectors)
@settings(max_examples=30, deadline=None)
def test_sizes_are_those_of_shapes(name: str, adds: bool, messages: Vector) -> None:
    compressor, values = COMPRESSORS[name](), messages[0]
    arrays = compressor.encode(values, adds)
    shapes = compressor.shapes(len(values), str(values.dtype), adds, np.zeros)
    assert [(len(each), each.dtype) for each in arrays] == [(len(each), each.dtype) for each in shapes]


@pytest.mark.parametrize("name", COMPRESSORS)
@given(messages=vectors)
@settings(max_examples=30, deadline=None)
def test_what_is_handed_on_is_what_came(name: str, messages: Vector) -> None:
    values, dtype = messages[0], str(messages.dtype)
    once = COMPRESSORS[name]().decode(COMPRESSORS[name]().encode(values, adds=False), len(values), dtype)
    again = COMPRESSORS[name]().decode(COMPRESSORS[name]().encode(once, adds=False), len(values), dtype)
    assert np.array_equal(once, again)


@pytest.mark.parametrize(("name", "step"), [("fp16", 2.0**-11), ("int8", 2.0**-7)])
@given(messages=vectors)
@settings(max_examples=30, deadline=None)
def test_rounding_is_off_by_a_step_of_the_largest_at_most(name: str, step: float, messages: Vector) -> None:
    values = messages[0]
    compressor = COMPRESSORS[name]()
    came = compressor.decode(compressor.encode(values, adds=False), len(values), str(values.dtype))
    assert np.abs(came - values).max() <= 2 * step * np.abs(values).max()


@pytest.mark.parametrize("name", COMPRESSORS)
def test_what_is_not_finite_is_seen_and_spoils_nothing_after_it(name: str) -> None:
    compressor, values = COMPRESSORS[name](), np.ones(400, np.float32)
    broken = values.copy()
    broken[7] = np.inf
    if name != "topk":  # where it is the largest entry, and leaves with the others
        compressor.encode(values / 3, adds=True)
        kept = compressor._residual.copy()
        assert np.isinf(compressor.decode(compressor.encode(broken, adds=True), 400, "float32")).any()
        assert np.array_equal(compressor._residual, kept)
    else:
        assert np.isinf(compressor.decode(compressor.encode(broken, adds=True), 400, "float32")).any()
        assert np.isfinite(compressor.encode(values, adds=True)[1]).all()


def test_the_largest_entries_leave_first_and_the_others_in_time() -> None:
    compressor = COMPRESSORS["topk"](share=0.25)
    values = np.array([1, -8, 3, 0.5], np.float32)
    assert [each.tolist() for each in compressor.encode(values, adds=True)] == [[1], [-8]]
    assert [each.tolist() for each in compressor.encode(values * 0, adds=True)] == [[2], [3]]


def test_a_matrix_of_low_rank_leaves_whole() -> None:
    draw = np.random.default_rng(1)
    values = (draw.normal(size=(20, 2)) @ draw.normal(size=(2, 20))).reshape(-1)
    compressor = COMPRESSORS["powersgd"](rank=2)
    arrays = compressor.encode(values, adds=True)
    assert sum(len(each) for each in arrays) == 80
    assert difference(compressor.decode(arrays, 400, "float64"), values) < 1e-12


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("int8", {"block": 0}),
        ("topk", {"share": 0.0}),
        ("topk", {"share": 1.5}),
        ("powersgd", {"rank": 0}),
        ("polyline", {"precision": 10}),
        ("polyline", {"entry_bytes": 0.0}),
    ],
)
def test_settings_out_of_range_are_refused(name: str, wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"compression '{name}'.*; write"):
        COMPRESSORS[name](**wrong)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_what_stands_for_no_vector_is_refused(name: str) -> None:
    for arrays in [[np.ones(3, np.int8)] * 2, [np.ones(5, np.float32)], [np.ones(3, np.float32)] * 3]:
        with pytest.raises(TrainingError, match="one version everywhere"):
            COMPRESSORS[name]().decode(arrays, 400, "float32")


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize(
    ("strategy", "chosen"),
    [("allreduce", {}), ("allreduce", {"tree_below_bytes": 1 << 20}), ("butterfly", {"period": 1})],
    ids=str,
)
def test_all_ranks_hold_the_same_parameters(name: str, strategy: str, chosen: dict[str, int]) -> None:
    targets = np.random.default_rng(2).normal(size=(4, 4700)).astype(np.float32)
    buckets = [slice(700, 4700), slice(0, 700)]
    computes = [Quadratic(lambda _, w, own=own: w - own, np.zeros(4700, np.float32), buckets, 0.1) for own in targets]
    virtual_world.run(
        lambda: strategies.load(strategy)(**chosen), size=4, iterations=5, computes=computes, samples=[3, 1, 4, 1],
        wrapping=lambda worker: compressed(worker, name, {}), of=virtual_world.profile_of(computes[0]),
        links=virtual_world.random_links(4, 1),
    )  # fmt: skip
    assert computes[0].parameters.any()
    for compute in computes:
        assert np.array_equal(compute.parameters, computes[0].parameters)


AVERAGING: list[tuple[str, dict[str, int | str]]] = [
    ("localsgd", {"period": 2}), ("localsgd", {"period_within": 1, "period_between": 2}), ("diloco", {"period": 2}),
    ("prague", {}), ("prague", {"groups": "random"}), ("prague", {"groups": "static"}), ("hop", {}), ("adpsgd", {}),
    ("fastlinks", {}), ("fedat", {"tiers": 2, "period": 2}),
]  # fmt: skip


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize(("strategy", "chosen"), AVERAGING, ids=str)
def test_averages_of_equal_models_leave_them_as_they_were(
    name: str, strategy: str, chosen: dict[str, int | str]
) -> None:
    start = np.random.default_rng(1).normal(size=4000)
    whole = slice(0, len(start))
    computes = [Quadratic(lambda _, w: w, start, [whole], 0.0) for _ in range(5)]
    virtual_world.run(
        lambda: strategies.load(strategy)(**chosen), size=5, iterations=12, computes=computes, factors=[1, 2, 1, 3, 1],
        layers=["edge"] * 3 + ["cloud"] * 2, of=virtual_world.profile_of(computes[0]),
        wrapping=lambda worker: compressed(worker, name, {}),
    )  # fmt: skip
    off = {"fp16": 2.0**-9, "int8": 2.0**-5, "polyline": 2e-4}.get(name, 1e-12) * np.abs(start).max()  # 2 steps of each
    for compute in computes:
        assert np.abs(compute.parameters - start).max() <= off


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("strategy", strategies.names())
def test_whose_model_every_rank_holds_trains_the_same_on_all(name: str, strategy: str) -> None:
    chosen = strategies.load(strategy).exact_with or {}
    if strategies.load(strategy)(**chosen).model_weights([4] * 3) is not None:
        return
    problem = Problem(3, 1, lengths=(600, 400), dtype=np.float32)
    computes = problem.computes(lambda rank, iteration, w: w - problem.targets[rank])
    virtual_world.run(
        lambda: strategies.load(strategy)(**chosen), size=3, iterations=5, computes=computes, samples=problem.samples,
        wrapping=lambda worker: compressed(worker, name, {}), of=virtual_world.profile_of(computes[0]),
    )  # fmt: skip
    for compute in computes:
        assert np.array_equal(compute.parameters, computes[0].parameters)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_all_reduce_under_it_still_descends(name: str) -> None:
    problem = Problem(3, 1, lengths=(400, 300))
    computes = problem.computes(lambda rank, iteration, w: w - problem.targets[rank])
    virtual_world.run(
        strategies.load("allreduce"), size=3, iterations=150, computes=computes, samples=problem.samples,
        wrapping=lambda worker: compressed(worker, name, {}),
    )  # fmt: skip
    ideal = np.average(problem.targets, axis=0, weights=problem.samples)
    assert difference(computes[0].parameters, ideal) < 0.5 * difference(problem.start, ideal)
