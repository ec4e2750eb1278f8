"""eval/ragindex_eval/results"""
