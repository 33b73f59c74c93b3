"""What submits jobs, once or again and again, and what is decided for all of a type."""
