"""gfcr: rollout strategies for LLM RL post-training, generated, filtered, controlled, replayed."""
