"""Figures for papers: one column wide, vector, without a title, the same bytes from the same runs."""
