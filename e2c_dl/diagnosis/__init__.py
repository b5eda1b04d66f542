"""From a Trace to a frozen Report, without side effects: states, replay, bottleneck, culprits."""
