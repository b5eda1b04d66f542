"""Real gradients on torch: models, data, and the compute that a Worker offers. The only room that imports torch."""
