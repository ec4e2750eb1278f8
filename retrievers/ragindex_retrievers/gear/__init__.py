"""GeAR: graph-enhanced agent for retrieval-augmented generation (Shen et al., ACL 2025)."""
