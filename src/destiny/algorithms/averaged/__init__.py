"""Methods of exact averages: every agent gets the average of all, and solves the problem at home."""
