"""Models behind an HTTP endpoint: one client for whoever asks them, with retries, deadlines and bounds."""
