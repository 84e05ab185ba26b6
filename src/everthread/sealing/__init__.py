"""Sealing: AES-256-GCM, and the master keys with which other keys are sealed. What is sealed stays with its owner."""
