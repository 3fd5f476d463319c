"""The user's own table: CSV, TSV, JSON lines or Parquet, its columns detected or named."""
