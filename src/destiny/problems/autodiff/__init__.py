"""Gradients of functions by JAX or PyTorch."""
