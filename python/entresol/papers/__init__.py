"""A room for each paper: its designs, fidelity switches, published values, claims, causes and
figures. What belongs to all papers is in `entresol.figures`."""
