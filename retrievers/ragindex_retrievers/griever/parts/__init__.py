"""retrievers/ragindex_retrievers/griever/parts"""
