"""Commands of the command line: each returns what is printed, and the exit status."""
