"""report.html: the comparison as one page that opens from disk and asks nobody for anything."""
