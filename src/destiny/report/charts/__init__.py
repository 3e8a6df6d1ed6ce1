"""The data and drawings of a report's charts."""
