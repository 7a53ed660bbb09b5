"""What the commands of the command line do: each returns what is printed, and the exit status."""
