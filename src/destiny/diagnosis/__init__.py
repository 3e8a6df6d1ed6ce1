"""Predict the rounds of a run, and say what would help one that does not converge: `diagnose`."""

from destiny.diagnosis.advice import Advice
from destiny.diagnosis.diagnosis import Diagnosis, diagnose
from destiny.diagnosis.findings import Finding
from destiny.diagnosis.landscape import Landscape
from destiny.diagnosis.prediction import Prediction

__all__ = ["Advice", "Diagnosis", "Finding", "Landscape", "Prediction", "diagnose"]
