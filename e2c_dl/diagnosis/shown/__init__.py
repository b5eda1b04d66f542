"""What pages and figures show of a run beside its report: timeline, heat, what changed or was shared."""
