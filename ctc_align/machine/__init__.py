"""The machine that the package runs on.

Its memory, temporary files and private folders, and the backends of the kernels.
"""

BACKENDS = ("auto", "reference", "cpu", "gpu")
"""Names of the backends of the kernels."""
