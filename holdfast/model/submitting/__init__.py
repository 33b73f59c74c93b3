"""What is submitted, and what it is held to."""
