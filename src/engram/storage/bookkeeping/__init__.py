"""Counters, stored sizes, state and the audit trail of one organisation."""
