"""What is measured beside the spans while a script trains: clocks, sockets, ports, devices; each is one sampler."""
