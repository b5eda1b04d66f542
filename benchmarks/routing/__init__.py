"""Training that hears verdicts and goes around a slow link, beside the same training that does not."""
