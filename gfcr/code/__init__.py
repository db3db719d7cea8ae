"""Finds and reads code as files, and compares it by digests."""
