"""Training: everything that needs torch lives in this package."""
