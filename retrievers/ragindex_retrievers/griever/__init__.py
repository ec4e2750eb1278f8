"""GRIEVER: multi-hop retrieval over partial triples without a language model (Melo et al.)."""
