"""Break Holdfast on purpose, and look at what it has kept: docs/chaos.md."""
