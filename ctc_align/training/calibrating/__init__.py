"""Calibration of a model on hand-labelled speech."""
