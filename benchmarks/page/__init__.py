"""The page: how large it is, how soon it is drawn."""
