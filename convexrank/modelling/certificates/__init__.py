"""Base of certificates: values and lower bounds by plain numpy, and the sizes of terms for rounding."""
