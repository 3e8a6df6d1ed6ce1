"""Messages between agents: connections over mutual TLS, and the event loop.

docs/transport.md explains the whole: who owns what, the states of a connection, what happens on each event.
`state` has the table of states, `connections` is where to start reading.
"""
