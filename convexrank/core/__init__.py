"""What every problem and solver shares: contract, certificates, results, the loop."""
