"""The annex of convexrank: judged claims of papers, published bounds, populations, the demonstration.

Users reach it as ``convexrank.claims``, ``convexrank.bounds`` and ``convexrank.population``, and by the commands
``convexrank claims`` and ``convexrank demo``.
"""

__version__ = "0.1.0"
