"""What may be kept: private parts, secrets and our own injections are taken out on the way in.

The store is verbatim, so hooks and importers clean a text before they store it. Everything here is pure but
for `projects` and `consent`, which read files of the directory they are asked about.
"""
