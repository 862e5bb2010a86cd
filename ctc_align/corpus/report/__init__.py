"""The report of a corpus run.

Its figures are collected from journals and outputs; a page shows them.
"""
