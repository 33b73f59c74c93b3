"""What tasks have written and returned, where they are found, and what has happened."""
