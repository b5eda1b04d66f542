"""Scenarios of earlier versions of E2Clab made into ones of today, every change told with its reason."""
