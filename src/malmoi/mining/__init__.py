"""Mining: what a pile of texts holds, found with their vectors."""
