"""Entresol: a simulator laboratory for memory-semantic (CXL) SSDs.

The Rust core is `entresol._core`; it is imported in `entresol.core` and nowhere else.
"""
