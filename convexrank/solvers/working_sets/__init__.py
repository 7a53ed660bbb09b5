"""Working sets: a few columns at a time, and what is computed over them."""
