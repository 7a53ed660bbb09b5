"""Methods that lower an objective."""
