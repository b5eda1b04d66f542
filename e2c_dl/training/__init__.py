"""What a Worker computes: models, data and real gradients on torch, or shapes alone, without.

The only room that imports torch, and only where something is computed.
"""
