"""The same verbs over HTTP."""
