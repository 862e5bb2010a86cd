"""Training of the networks that look at edges: examples, the fit, edges drawn by eye, recordings made worse."""
