"""From a message to what it is found by; every step but asking the model is pure."""
