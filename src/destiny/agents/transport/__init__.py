"""Messages between agents: connections over mutual TLS, and the event loop."""
