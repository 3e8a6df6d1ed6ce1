"""What is kept on disk: arrays without pickle, checkpoints."""
