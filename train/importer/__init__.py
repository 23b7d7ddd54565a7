"""Converts a published RAT+ or RAT checkpoint into a model directory; train/import_checkpoint.py is the program.

`checkpoint` reads the file, `published` the configuration in it, `weights` and `plan` decide what is written, `directory` writes it.
"""
