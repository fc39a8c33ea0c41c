"""The control database: organisations, keys, usage and the operators' audit trail."""
