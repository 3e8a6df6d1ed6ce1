"""Agents that do not wait for each other (docs/asynchrony.md): their exchange, files, log and replay."""
