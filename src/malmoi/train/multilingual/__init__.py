"""A model carried over to other languages: a recipe with `objective = "distil"`, stage by stage."""
