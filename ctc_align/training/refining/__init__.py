"""Training of the network that refines edges: speech whose edges are known, made from it examples, the fit."""
