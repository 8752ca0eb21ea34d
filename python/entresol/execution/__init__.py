"""Points of the design space, executed: found in the store, or simulated on worker processes."""
