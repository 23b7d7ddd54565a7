"""The model in the form the trainer needs, its operations, and the numerical oracle."""
