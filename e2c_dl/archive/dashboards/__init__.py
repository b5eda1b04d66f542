"""Losses and accuracies of a run for the dashboards that people have: TensorBoard's events, MLflow's runs.

Beside the archive, or elsewhere: a sealed archive knows its files. Both libraries are extras, imported when asked for.
"""
