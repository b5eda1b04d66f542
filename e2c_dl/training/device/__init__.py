"""One rank's mathematics on an accelerator: its parameters go there and its gradients come back, timed by events."""
