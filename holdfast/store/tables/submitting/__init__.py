"""What is stored when jobs come in, and what decides how they come in."""
