"""Google's Gemini: its requests and its client."""
