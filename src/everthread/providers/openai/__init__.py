"""OpenAI, and every server that speaks its API: requests, client, and message lists."""
