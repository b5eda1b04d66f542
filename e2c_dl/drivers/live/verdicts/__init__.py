"""Verdicts while a run trains, for strategies that hear them: no controller takes part, under plain E2Clab neither.

::

    rank r    spans.bin --what was appended, EVERY_S / 2--> control connection --> coordinator (rank 0's process)
                                                                                        |
    rank 0's host                                 judge, a process of its own, niced <--+
                                                     |  diagnosis.verdicts.Judge, EVERY_S
    rank r    Worker.verdicts() <-- control connection <-- coordinator

All of it crosses the management network, which is not shaped. The judge computes on rank 0's host: what it takes stands
in verdicts.jsonl, beside every verdict.
"""
