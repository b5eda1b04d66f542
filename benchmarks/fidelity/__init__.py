"""Randomly drawn links on every back end: asked beside measured, each within the project's tolerances or not."""
