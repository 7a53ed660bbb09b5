"""Validation of all arguments of a caller, in one place.

Every message states the value, the values that are allowed, and how to correct the call. Arrays are never edited in
place: the functions return either the caller's own array (when it already has the right type) or a converted copy.
"""
