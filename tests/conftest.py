"""Settings that every test shares."""

from hypothesis import settings

# Shared machines stall for longer than any deadline that a test would want.
settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")
