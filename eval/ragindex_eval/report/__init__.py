"""eval/ragindex_eval/report"""
