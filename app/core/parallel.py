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


def pipeline_stages(num_hidden_layers: int, pipeline_parallel_size: int) -> tuple[range, ...]:
    """The layers of each pipeline stage.

    vLLM's rule (`get_pp_indices`): layers are divided evenly and the remainder goes, one each, to
    the stages before the last, from the back, since the last stage also holds the head; the first
    stage takes one only when all others have.
    """
    if pipeline_parallel_size > num_hidden_layers:
        raise InputError.of(
            "pipeline_parallel_size",
            f"{pipeline_parallel_size} stages for {num_hidden_layers} layers",
        )
    per_stage, rest = divmod(num_hidden_layers, pipeline_parallel_size)
    sizes = [per_stage] * pipeline_parallel_size
    for index in range(2, rest + 2):
        sizes[-index] += 1
    stages, start = [], 0
    for size in sizes:
        stages.append(range(start, start + size))
        start += size
    return tuple(stages)
