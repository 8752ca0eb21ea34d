"""What is in the store: listed, shown, compared, exported and cleared."""
