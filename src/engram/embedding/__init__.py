"""Texts become vectors: the port, the models Engram knows, and the embedders behind the port."""
