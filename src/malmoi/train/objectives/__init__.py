"""What a model can learn: one file an objective, and its recipe."""
