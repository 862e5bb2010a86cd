"""The GPU backend: Triton kernels for whole batches."""
