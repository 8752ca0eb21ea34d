"""Sweeps: grids and lists of points, run to the end whatever happens on the way."""
