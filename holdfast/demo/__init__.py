"""`holdfast demo`: a program of its own over the CLI, the client and the ledger."""
