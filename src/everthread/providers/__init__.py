"""The providers of models, and what is known of what they offer."""
