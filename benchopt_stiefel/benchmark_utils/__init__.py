"""What solvers of this benchmark share."""
