"""A kernel of our own for measurements that need netem: User-Mode Linux, booted in seconds by an ordinary user.

``boot`` runs a program in it; such a program uses ``hosts`` (namespaces, shaped by this project's commands),
``packets`` (datagrams between them) and what ``enoslib_commands`` has rendered outside. Tests and benchmarks share it.
"""
