"""The plugin system: base class, registry, and the syntax of specifications."""
