"""Parts that are registered (`destiny.registry`): nothing outside names them."""
