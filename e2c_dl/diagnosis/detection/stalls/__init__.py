"""Stalls: of seconds, of links and hosts; and shorter stops of hosts, with the messages that they held up."""
