"""How tensor parallelism divides a model over ranks."""

from app.errors import InputError


def split_evenly(total: int, tensor_parallel_size: int, what: str) -> int:
    """`total / tensor_parallel_size`, refused where it is not whole.

    `what` names the thing in the refusal ("num_attention_heads 28").
    """
    share, rest = divmod(total, tensor_parallel_size)
    if rest:
        raise InputError.of(
            "tensor_parallel_size",
            f"{what} ({total}) does not divide by tensor_parallel_size {tensor_parallel_size}",
            type="not_divisible",
        )
    return share


def kv_heads_per_rank(num_key_value_heads: int, tensor_parallel_size: int) -> int:
    """KV heads one rank holds: split while there are enough, replicated beyond, never below one.

    The rule of Megatron-style attention in vLLM (`max(1, total_num_kv_heads // tp_size)`); either
    number has to divide the other.
    """
    if num_key_value_heads >= tensor_parallel_size:
        return split_evenly(num_key_value_heads, tensor_parallel_size, "num_key_value_heads")
    if tensor_parallel_size % num_key_value_heads:
        raise InputError.of(
            "tensor_parallel_size",
            f"tensor_parallel_size {tensor_parallel_size} is no multiple of "
            f"num_key_value_heads ({num_key_value_heads}), so the heads can't be replicated evenly",
            type="not_divisible",
        )
    return 1
