"""One local process for each store and user, which every other process of that user shares."""

LOST = (
    "the engine ended during this call, which may or may not have been carried out: check before "
    "you repeat it"
)
"""The reason that a client is told for a call that must not be repeated."""

FAREWELL = b'{"engine": "ends", "answered": true}'
"""The last line of an engine that ends in order: it has answered every request that it has read."""
