"""Filter: lets rows pass, or drops them from their table."""
