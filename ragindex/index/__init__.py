"""The workspace: an index folder with its documents, the parts built from them, and crash recovery for both."""
