"""The program `holdfast`: its commands, and what they share."""
