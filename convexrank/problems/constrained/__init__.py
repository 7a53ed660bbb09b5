"""Problems with a constraint on rates."""
