"""eval/ragindex_eval/files"""
