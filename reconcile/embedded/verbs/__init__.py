"""What a request does: read, write, delete, watch."""
