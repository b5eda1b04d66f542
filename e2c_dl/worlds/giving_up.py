"""Giving up on a peer: the one rule of both worlds, as TCP has it.

A rank whose connection shows no sign of life for GIVE_UP_S is lost, and the rank at the other end is, to it: nothing
that was sent is acknowledged for so long (TCP_USER_TIMEOUT, RFC 5482), or, where nothing is sent, no keep-alive probe
is answered. A link that is cut one way is silent both ways, as acknowledgements go the other. A process that is stopped
is not silent: its kernel answers, and takes what its receive buffer holds. (Live, who has more for it than that gives
it up after as long; the virtual world has no receive buffers.)
"""

GIVE_UP_S = 20.0
