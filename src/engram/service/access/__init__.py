"""Who may do what, and how much of it: credentials, rates, turns, quotas and the audit trail."""
