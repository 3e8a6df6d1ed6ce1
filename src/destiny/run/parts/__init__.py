"""What features add to a run: a file for each (`part.py`: the contract)."""
