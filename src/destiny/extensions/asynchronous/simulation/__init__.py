"""Runs in simulated time: agents of different speeds, messages that are late or lost, crashes."""
