"""Replicas of one operator that share its objects: buckets, members, and who owns what."""
