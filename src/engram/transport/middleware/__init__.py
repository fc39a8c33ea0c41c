"""What every HTTP request passes before a route sees it; plain ASGI, because it is on every path."""
