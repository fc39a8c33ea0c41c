"""Retrieval quality: evaluation sets, scores of ranked answers, reports and baselines.

A separate package, because nothing that serves requests uses it; only `engram eval` imports it.
"""
