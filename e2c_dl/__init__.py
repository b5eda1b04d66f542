"""Deep learning across edge, fog and cloud: deploy it, emulate the network, train, and name what slowed it down."""

__version__ = "0.1.0"
