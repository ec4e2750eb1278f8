"""retrievers/ragindex_retrievers/gear/parts"""
