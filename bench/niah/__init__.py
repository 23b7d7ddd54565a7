"""Needle-in-a-haystack test of what a model with landmarks gives back of mounted documents (docs/niah.md)."""
