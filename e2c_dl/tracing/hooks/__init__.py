"""Hooks into torch and Horovod: each module patches one part, when the script itself has imported it.

A patched function does what it did, with the same arguments and result; before and after it a clock is read. None takes
DDP's communication hook, or changes the order of anything.
"""
