"""Real databases on a mount of ours: what transparent DAX is worth to them (`bench dax`)."""
