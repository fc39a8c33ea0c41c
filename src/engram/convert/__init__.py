"""Make text of documents that are none, to be indexed: HTML, PDF and DOCX.

Each is converted in a process of its own that is confined, so that no document can stop the server
or get at anything else. The original bytes are the caller's and are never changed here.
"""
