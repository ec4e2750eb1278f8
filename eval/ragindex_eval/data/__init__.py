"""eval/ragindex_eval/data"""
