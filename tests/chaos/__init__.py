"""An operator of two replicas that are killed and frozen, and a proxy that lies about its API server.

`python -m tests.chaos --seconds 1800 --seed N` says whether anything was done twice, lost or left behind.
"""
