"""`entresol explain-gain`: how much of a speedup each modelling decision, or each mechanism, is
worth."""
