"""What a student is tuned on besides its teacher, one lesson a file."""
