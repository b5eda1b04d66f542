"""The live driver, a process on each host: joins the live world and real training, and leaves records of what it saw.

``python -m e2c_dl.drivers.live train RUN_DIR ID`` is the worker; ``begin`` starts it in the background, ``wait`` waits
for its end, ``stop`` ends it. Steps, all ranks together::

    run.key -> join -> import torch -> calibrate, in turns -> clocks -> measure links -> connect -> train -> clocks
    -> evaluate -> leave

Rank 0 tells of each step until training begins in setup.jsonl, and of training in progress.jsonl.

A rank that fails, is stopped or is lost ends all of them; each writes why in its outcome.json.
"""
