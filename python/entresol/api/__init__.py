"""Entresol for notebooks and programs; `import entresol as es` has all of it."""
