"""eval/ragindex_eval/metrics"""
