"""baselines/ragindex_baselines/graphrag/parts"""
