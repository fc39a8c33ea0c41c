"""From a question to ranked messages under a token budget; every step but reading is pure."""
