"""A small multilingual student taught by a large teacher, stage by stage."""
