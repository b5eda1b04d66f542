"""Collectives among a group of ranks, for several strategies: sum over a ring or a tree, broadcast, gather, average.

A group is a sequence of ranks, the same on all of them; each calls the same collective with the same tag. No two
collectives under way at once may share tag and ranks.
"""

from e2c_dl.strategies.collectives.ring import ring_links, ring_sum, split
from e2c_dl.strategies.collectives.tag import Tag
from e2c_dl.strategies.collectives.tree import broadcast, gather, tree_links, tree_sum

__all__ = ["Tag", "broadcast", "gather", "ring_links", "ring_sum", "split", "tree_links", "tree_sum"]
