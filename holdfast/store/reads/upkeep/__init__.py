"""How the database and the servers do."""
