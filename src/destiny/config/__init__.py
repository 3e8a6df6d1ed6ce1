"""Settings files: text to typed settings and back, and the JSON schema of both. Nothing is computed here."""
