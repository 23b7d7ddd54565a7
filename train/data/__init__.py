"""What the trainers read: tokenizer, books, needles and records, laid out in batches."""
