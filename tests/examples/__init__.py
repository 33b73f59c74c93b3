"""The programs in `examples/`, run as their users run them."""
