"""Second derivatives of expressions."""
