"""Beyond one machine: a store of Parquet files, and counting by frames, engines and SQL."""
