"""Schedules, heat, faults and speed over the seconds of training: what is in force when. Pure."""
