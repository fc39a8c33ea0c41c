"""Retrieval quality: evaluation sets, scores of ranked answers, reports and baselines.

A package of its own, because nothing that serves requests uses it; `engram eval` imports it when it runs.
"""
