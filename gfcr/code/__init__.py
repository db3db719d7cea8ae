"""Code as files: found, read and told apart by digests."""
