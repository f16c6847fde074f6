"""What may change or refuse a write."""
