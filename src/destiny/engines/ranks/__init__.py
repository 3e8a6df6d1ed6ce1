"""Agents on the ranks of an MPI job."""
