"""What links carried over time, each by itself and together, and whose it was."""

from dataclasses import replace

import numpy as np
import pytest
import virtual_world

from e2c_dl import strategies
from e2c_dl.diagnosis.carried import Carried, Observed, observed, share_sentences, shares, together
from e2c_dl.topology import Bottleneck
from e2c_dl.trace.model import Phase


def sent(begin_s=0.5, end_s=2.5, bits=4e6) -> Carried:
    """What a link carried: one message."""
    moments = np.array([begin_s]), np.array([end_s])
    return Carried(begin_s=moments[0], end_s=moments[1], bits=np.array([bits]), large=np.array([True]))


def test_bits_are_spread_over_the_time_that_they_took():
    both = together([sent(), sent()])
    steps = both.steps(np.arange(4.0))
    assert [moment for moment, _ in steps] == [0.0, 1.0, 2.0, 3.0]
    assert [rate for _, rate in steps] == pytest.approx([2, 4, 2, 2])


def test_a_message_that_took_no_time_passes_at_its_moment():
    assert sent(0.5, 0.5).passed_bits(np.array([0.4, 0.6])) == pytest.approx([0, 4e6])


def test_a_typical_stretch_begins_where_an_idle_link_begins_to_carry():
    twice = [sent(5.0, 6.0), sent(5.5, 6.5)]
    seen = together([sent(1.0, 2.0, bits=1e6), *twice, sent(8.0, 8.5, bits=9e9)])
    assert seen.typical_s(2.0, 10.0) == (5.0, 7.0)
    assert sent(9.0, 9.5).typical_s(2.0, 10.0) == (8.0, 10.0)  # before the end


def test_the_links_that_carried_least_are_one_share():
    names = [("edge-1", f"cloud-{number}") for number in range(1, 7)]
    seen = Observed(end_s=4.0, carried={pair: sent(bits=n * 1e6) for n, pair in enumerate(names, start=1)})
    shared = Bottleneck(name="line", rate_bps=1e7, links=(*names, ("edge-1", "fog-1")))
    assert list(shares(shared, seen)) == [f"edge-1 -> cloud-{number}" for number in range(3, 7)] + ["2 more"]
    assert share_sentences([shared], seen) == (
        "bottleneck line: carried 5.25 Mbit/s in the mean, of which 14.3 % edge-1 -> cloud-3, "
        "19.0 % edge-1 -> cloud-4, 23.8 % edge-1 -> cloud-5, 28.6 % edge-1 -> cloud-6, 14.3 % 2 more",
    )


def test_a_rank_of_which_backward_alone_is_known_has_no_gradient_whose_time_is_known():
    trace = virtual_world.run(strategies.load("allreduce"), size=2, seed=1, iterations=3).trace
    first, second = trace.ranks
    left = first.spans[~np.isin(first.spans["phase"], [Phase.DATA, Phase.FORWARD])]
    seen = observed(replace(trace, ranks=(replace(first, spans=left), second)), {})
    assert [len(seen.gradients[rank.host]) for rank in trace.ranks] == [0, 3]
