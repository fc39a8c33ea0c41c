"""Bodies of requests: bounded, counted and taken apart before a parser builds anything of them."""
