"""OpenAI's Responses API: its requests and its client."""
