"""eval/ragindex_eval/cli"""
