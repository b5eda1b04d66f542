"""Bytes per link, as the ranks' own sockets count them, beside those of the relay that carried them."""
