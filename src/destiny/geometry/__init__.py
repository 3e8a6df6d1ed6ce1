"""The Stiefel manifold, the approximate augmented Lagrangian, and the directions a method may follow."""
