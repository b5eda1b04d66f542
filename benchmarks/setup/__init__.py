"""Time from the start of a deployment to its first training iteration, beside an earlier commit of this tree."""
