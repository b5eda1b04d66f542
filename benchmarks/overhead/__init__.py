"""What tracing costs a training script."""
