"""Language models: the port, and the services behind it; Engram works without one."""
