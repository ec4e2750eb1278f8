"""How plugins are found, named and written down."""
