"""Traffic control by the kernel: the commands of a topology as values, run and read back on the host."""
