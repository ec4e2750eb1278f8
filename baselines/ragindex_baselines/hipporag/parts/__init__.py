"""baselines/ragindex_baselines/hipporag/parts"""
