"""Looking into a run: `entresol timeline` for Perfetto, `entresol why` for one slow load."""
