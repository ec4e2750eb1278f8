"""eval/ragindex_eval/stats"""
