"""The version of the package, in a module that imports nothing, so that every other module can import it."""

__version__ = "0.2.0.dev0"
