"""Base of certificates: values and lower bounds by plain numpy, sizes of terms for rounding, enclosures in balls."""
