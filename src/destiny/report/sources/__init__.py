"""Reading folders of results."""
