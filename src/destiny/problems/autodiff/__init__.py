"""Gradients of a user's function by another library."""
