"""What runs while things break, and the record that it keeps of itself."""
