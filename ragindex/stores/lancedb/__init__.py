"""The LanceDB store, which is embedded."""
