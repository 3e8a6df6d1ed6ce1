"""Data of agents: files and tables, and how they are divided over agents."""

from destiny.problems.data.csv import Csv
from destiny.problems.data.files import File, load, silos

__all__ = ["Csv", "File", "load", "silos"]
