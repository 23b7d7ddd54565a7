"""A learned memory for a frozen pretrained chat model of the Llama architecture: adapter, oracle, export, goldens, trainer."""
