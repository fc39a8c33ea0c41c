"""Where Engram keeps everything: the ports, and the backends that implement them."""
