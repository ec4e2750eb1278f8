"""SiReRAG: a similarity tree and a relatedness tree of summaries, searched as one pool (Zhang et al., ICLR 2025)."""
