"""vLLM on a core that it shares with others: processes that wait for a message sleep."""

from typing import Any, Final

REST: Final = "GFCR_REST"
"""Environment variable of gfcr's servers: 1 where the server shares its core with others."""
_LOOK_MS: Final = 1


def rest() -> None:
    """Makes this process sleep while it waits for messages; repeating it is harmless.

    A reader of vLLM's shared memory spins for a second after each message, which takes time from
    others on the same core. Sleeping delays a message by up to a millisecond.
    """
    from vllm.distributed.device_communicators import shm_broadcast

    owner: Any = shm_broadcast.SpinCondition
    stock = owner.wait
    if stock.__module__ == __name__:
        return

    def wait(self: Any, timeout_ms: int | None = None) -> None:
        self.busy_loop_s = 0
        # Bounded: a message may arrive without a notification.
        stock(self, timeout_ms=_LOOK_MS if timeout_ms is None else min(timeout_ms, _LOOK_MS))

    owner.wait = wait
