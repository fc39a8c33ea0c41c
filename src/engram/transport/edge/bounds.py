"""The bounds of connections in one value, so that a server can be started with others."""

from __future__ import annotations

from dataclasses import dataclass

from engram import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBounds:
    """What a client may take of a server process before and after it is known; times in seconds."""

    connections_max: int = limits.CONNECTIONS_MAX
    connections_per_address_max: int = limits.CONNECTIONS_PER_ADDRESS_MAX
    header_bytes_max: int = limits.HEADER_BYTES_MAX
    headers_max: int = limits.HEADERS_MAX
    header_s: float = limits.HEADER_S
    pipelined_max: int = limits.PIPELINED_REQUESTS_MAX
    transfer_window_s: float = limits.TRANSFER_WINDOW_S
    transfer_bytes_per_s_min: int = limits.TRANSFER_BYTES_PER_S_MIN
    keep_alive_s: float = limits.KEEP_ALIVE_S
    linger_s: float = limits.LINGER_S
    waste_bytes_per_s: float = limits.WASTE_BYTES_PER_S
    sweep_s: float = limits.SWEEP_S

    @property
    def window_bytes_min(self) -> float:
        """Bytes that must move in each window."""
        return self.transfer_bytes_per_s_min * self.transfer_window_s
