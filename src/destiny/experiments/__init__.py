"""Experiment files, several methods side by side, folders of results."""
