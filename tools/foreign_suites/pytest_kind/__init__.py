"""Stands in for pytest-kind where the suite of kr8s runs against a server that is up already."""
