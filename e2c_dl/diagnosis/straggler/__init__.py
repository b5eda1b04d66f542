"""Straggler metrics after Lin et al. (OSDI'25): how much slower a job is than if all its workers were alike."""
