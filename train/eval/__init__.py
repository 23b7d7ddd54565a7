"""What is computed with finished weights: measures, pictures, golden cases."""
