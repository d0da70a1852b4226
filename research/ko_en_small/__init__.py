"""How the encoder that comes with malmoi was made: one joint run, its data and its measures."""
