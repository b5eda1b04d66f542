"""Randomly drawn links on every back end: requested beside measured, each within the project's tolerances or not."""
