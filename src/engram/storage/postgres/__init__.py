"""The tables in a PostgreSQL database that any number of processes share."""
