"""vLLM on a core that others compute on too: who waits for a message sleeps."""

from typing import Any, Final

REST: Final = "GFCR_REST"
"""In the environment of a server that gfcr starts: 1 where it shares its core with others."""
_LOOK_MS: Final = 1


def rest() -> None:
    """Has this process sleep when it waits for its messages; repeating it is harmless.

    A reader of vLLM's shared memory spins for a second after each message: time that is taken from
    whoever computes on the same core. Sleeping costs a message up to a millisecond.
    """
    from vllm.distributed.device_communicators import shm_broadcast

    owner: Any = shm_broadcast.SpinCondition
    stock = owner.wait
    if stock.__module__ == __name__:
        return

    def wait(self: Any, timeout_ms: int | None = None) -> None:
        self.busy_loop_s = 0
        # Not for ever: a message may come without anybody's being told.
        stock(self, timeout_ms=_LOOK_MS if timeout_ms is None else min(timeout_ms, _LOOK_MS))

    owner.wait = wait
