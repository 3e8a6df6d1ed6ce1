"""What the charts of a report show."""
