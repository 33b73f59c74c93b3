"""What tasks have written, and what has happened to them."""
