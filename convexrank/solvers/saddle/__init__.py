"""Methods for games: payoffs with a minimising and a maximising player."""
