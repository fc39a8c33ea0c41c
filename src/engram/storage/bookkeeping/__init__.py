"""Counters, sizes, numbers, jobs and the audit trail of one organisation."""
