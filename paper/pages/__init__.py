"""The report as a page: the same content as HTML and as Markdown."""
