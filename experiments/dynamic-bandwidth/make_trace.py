"""Writes traces/cell.csv: the rate of a link that varies as that of a moving phone does, by a formula and a seed.

::

    x[0] ~ N(0, 1)    x[k + 1] = A x[k] + sqrt(1 - A^2) e[k],  e ~ N(0, 1)        a Gauss-Markov process
    rate[k] = MEDIAN exp(SPREAD x[k]), held for a second, kept between LEAST and GREATEST

Synthetic: no recording went into it. Run it in this folder: ``python make_trace.py > traces/cell.csv``.
"""

import math
import random

SEED = 1
SECONDS = 60
A = 0.8  # how much of a second's state the next one keeps
MEDIAN_MBPS, LEAST_MBPS, GREATEST_MBPS = 12.0, 3.0, 40.0
SPREAD = 0.6

if __name__ == "__main__":
    draw = random.Random(SEED)
    state = draw.gauss(0.0, 1.0)
    print("time_s,rate_mbps")
    for second in range(SECONDS):
        rate_mbps = min(max(MEDIAN_MBPS * math.exp(SPREAD * state), LEAST_MBPS), GREATEST_MBPS)
        print(f"{second},{rate_mbps:.2f}")
        state = A * state + math.sqrt(1 - A * A) * draw.gauss(0.0, 1.0)
