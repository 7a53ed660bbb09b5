"""The PageRank game and its dual."""
