"""An evaluation set of things planted in long tool output and code, generated from a seed.

    python -m bench.needles FILE

Identifiers, error texts and facts lie at the beginning, in the middle and at the end of logs, stack
traces, JSON, diffs, source code and build output of 1 to 100 KB, among ordinary conversation. A question
asks for each by the identifier, by the error text, or for the fact in its own words or in others.
"""
