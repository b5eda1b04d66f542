"""The two drivers of the worlds: live, on each host; virtual, of all hosts in one process."""
