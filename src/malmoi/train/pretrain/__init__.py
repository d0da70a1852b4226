"""`objective = "pretrain"`: masked words and following sentences, from text alone."""
