"""The generated messages and stubs of recollect.v1 (proto/recollect/v1)."""
