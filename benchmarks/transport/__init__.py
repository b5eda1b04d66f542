"""The live transport beside iperf3 on emulated links, and beside torch's gloo on loopback."""
