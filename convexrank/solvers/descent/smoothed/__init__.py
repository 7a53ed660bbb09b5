"""Parts of the method that follows the minimisers of smooth functions below a risk with kinks."""
