"""Names of codes to learn from: synonym pairs, hard negatives, a sampler that knows concepts."""
