"""How the world reaches Engram: each transport parses, calls one use case and serialises."""
