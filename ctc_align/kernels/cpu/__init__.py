"""The CPU backend: Numba kernels for whole batches."""
