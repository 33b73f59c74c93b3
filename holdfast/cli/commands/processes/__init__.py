"""What runs Holdfast's own processes, and what those need before they start."""
