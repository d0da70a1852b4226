"""Files and tables in any Korean encoding, arrays, fingerprints, progress."""
