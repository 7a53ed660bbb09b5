"""The annex of convexrank: claims of papers, judged by computed numbers, published bounds, and exact populations.

Users reach it as ``convexrank.claims``, ``convexrank.bounds`` and ``convexrank.population``.
"""

__version__ = "0.1.0"
