"""The index: a folder with documents, the parts built from them, and crash recovery for both."""
