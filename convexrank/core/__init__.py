"""Contract, certificates, results and loop that every problem and solver shares."""
