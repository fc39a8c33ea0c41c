"""Move organisations from one database to another: every row as it is, proved on both sides."""
