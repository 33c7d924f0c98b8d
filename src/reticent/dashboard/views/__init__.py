"""What stands on each page: figures for its twin, words and charts for its template."""
