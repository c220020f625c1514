"""Questions written by a language model from the chunks of the corpus."""
