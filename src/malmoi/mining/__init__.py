"""Mining: keywords, topics, near-duplicates, translations and hard negatives in texts."""
