"""What a User-Mode Linux of ours fails with."""

from __future__ import annotations


class UmlError(Exception):
    """The machine could not be made, did not boot, or did not end in time; what was said last is in the message."""
