"""Make text of documents that are none, to be indexed: HTML, PDF and DOCX.

Each is converted in a process of its own with bounds on time and memory, so that no document can
stop the server. The original bytes are the caller's and are never changed here.
"""
