"""What commands write: tables, JSON, remarks, logs of tasks and of the program itself."""
