"""Messages that wait for their turn in a replay: the heap, beside Python's own."""

import heapq
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np

from e2c_dl.diagnosis.replay.graph import LAST, Heap, _added, _first_taken

COMPILED = """
import numpy as np
from e2c_dl.diagnosis.replay.compiled import compiled

def doubled(values, place):
    values[place] *= 2

def increased(values, place):
    doubled(values, place)
    values[place] += 1

@compiled(len, few=0, calls=(doubled, increased))
def all_increased(values):
    for place in range(len(values)):
        increased(values, place)
    return values

assert all_increased(np.arange(3)).tolist() == [1, 3, 5]
"""


def test_messages_come_by_time_and_of_one_time_by_number() -> None:
    drawn = random.Random(1)
    numbers = drawn.sample(range(200), 200)
    heap, expected, size = Heap(at_ns=np.full(201, np.inf), message=np.full(201, LAST, dtype=np.int32)), [], 0
    for number in numbers:
        at_ns = float(drawn.randrange(20))
        _added(heap, size, at_ns, number)
        heapq.heappush(expected, (at_ns, number))
        size += 1
        while size and drawn.random() < 0.4:
            size = _next_is_alike(heap, expected, size)
    while size:
        size = _next_is_alike(heap, expected, size)
    assert np.isinf(heap.at_ns).all() and (heap.message == LAST).all()


def _next_is_alike(heap: Heap, expected: list[tuple[float, int]], size: int) -> int:
    """Both give the same; how many are left."""
    assert (heap.at_ns[0], heap.message[0]) == heapq.heappop(expected)
    _first_taken(heap, size)
    return size - 1


def test_a_compiled_loop_calls_functions_that_call_others(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
