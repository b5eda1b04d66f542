"""Hosts asked to be k times slower, by CPU quota and by calibrated sleep, against what they then are."""
