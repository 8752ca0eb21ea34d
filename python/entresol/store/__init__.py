"""The store: results and captures kept by the content of what they were made from."""
