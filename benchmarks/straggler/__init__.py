"""Straggler metrics beside the program of those who defined them."""
