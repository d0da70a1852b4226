"""`objective = "tag"`: entities from marked files, a tagger's bundle out."""
