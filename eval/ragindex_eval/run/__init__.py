"""eval/ragindex_eval/run"""
