"""Keywords, topics, near-duplicates, translations and hard negatives in texts; their pictures."""
