"""The paper's figures: settings, runs and claims."""
