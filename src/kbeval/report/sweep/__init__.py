"""What people read about a sweep: the table, the pictures, the page, and the same as JSON."""
