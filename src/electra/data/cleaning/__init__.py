"""What is kept of documents, and the report."""
