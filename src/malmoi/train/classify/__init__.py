"""`objective = "classify"`: a classifier of long notes, from files of labelled notes."""
