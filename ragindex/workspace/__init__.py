"""A workspace: documents, the parts built over them, and what keeps both whole through crashes."""
