"""Judge: a model behind an OpenAI-compatible endpoint scores answers."""
