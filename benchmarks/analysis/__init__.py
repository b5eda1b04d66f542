"""How long a diagnosis takes, from the trace's files to the report, beside Polars adding up the states alone."""
