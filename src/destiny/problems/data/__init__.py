"""Data of agents: files and tables, and how they are divided over agents."""

from destiny.problems.data.csv_layout import Csv
from destiny.problems.data.files import File, load, silos
from destiny.problems.data.per_party import SiloValues
from destiny.problems.data.tables import Silos

__all__ = ["Csv", "File", "SiloValues", "Silos", "load", "silos"]
