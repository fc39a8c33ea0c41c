"""Convert HTML, PDF and DOCX documents to text, so that they can be indexed.

Each document is converted in a sandboxed process of its own, so that none can stop the server or reach
anything else. The original bytes are never changed.
"""
