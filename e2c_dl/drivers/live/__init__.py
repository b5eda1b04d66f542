"""The live driver, a process on each host: joins the live world and real training, and leaves records of what it saw.

``python -m e2c_dl.drivers.live train RUN_DIR ID`` and ``... stop RUN_DIR``. Steps, all ranks together::

    run.key -> join -> prepare (torch, calibration) -> clocks -> measure links -> connect -> train -> clocks -> evaluate
    -> leave

A rank that fails, is stopped or is lost ends all of them; each writes why in its outcome.json.
"""
