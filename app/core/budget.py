"""Formula (4): what a GPU's memory leaves for the KV cache."""

from dataclasses import dataclass

DEFAULT_ACTIVATION_BYTES = 2_000_000_000
DEFAULT_OVERHEAD_BYTES = 2_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryBudget:
    """Where one GPU's memory goes, in bytes; the parts and the KV budget add up to the memory.

    `unrequested_bytes` is what an engine is told to leave alone; formula (4) knows none.
    `unexplained_bytes` is what the parts leave beside a budget that was given or measured itself;
    below zero where they leave less.
    """

    gpu_memory_bytes: int
    weight_bytes: int
    activation_bytes: int = DEFAULT_ACTIVATION_BYTES
    overhead_bytes: int = DEFAULT_OVERHEAD_BYTES
    cuda_graph_bytes: int = 0
    unrequested_bytes: int = 0
    unexplained_bytes: int = 0

    @property
    def kv_budget_bytes(self) -> int:
        """Formula (4); negative where weights and headrooms exceed the memory."""
        return (
            self.gpu_memory_bytes
            - self.weight_bytes
            - self.activation_bytes
            - self.overhead_bytes
            - self.cuda_graph_bytes
            - self.unrequested_bytes
            - self.unexplained_bytes
        )
