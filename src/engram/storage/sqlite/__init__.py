"""The embedded store: a control file, and a file for each organisation."""
