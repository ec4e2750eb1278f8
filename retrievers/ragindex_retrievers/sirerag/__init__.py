"""SiReRAG: a similarity tree and a relatedness tree of summaries in one pool (Zhang et al., ICLR 2025)."""
