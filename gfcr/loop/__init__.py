"""The event loop: prompts become jobs, jobs groups of rollouts, and groups the batch."""
