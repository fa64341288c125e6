"""Why a measured figure differs from the predicted one, in words."""

from app.answers.room import EngineRoom, Room
from app.answers.verify_parts import PARTS, PoolParts
from app.logs.reading import ReadLog
from app.logs.templates import Size
from app.schemas.request import ConcurrencyBody

GIB = 2**30
CLOSE = 0.005
"""A share of a figure below which a difference needs no cause of its own."""
NAMES = {
    "gpu_memory": "memory of the GPU",
    "unrequested": "left alone by the engine",
    "weights": "weights",
    "activation": "activation peak",
    "non_torch": "outside the allocator",
    "cuda_graphs": "CUDA graphs",
    "kv_pool": "memory for the cache",
    "kv_cache_tokens": "tokens",
    "num_blocks": "blocks",
    "max_concurrency": "sequences at once",
    "kv_cache_tokens_of_logged_memory": "tokens, from the logged memory",
    "num_blocks_of_logged_memory": "blocks, from the logged memory",
    "max_concurrency_of_logged_memory": "sequences, from the logged memory",
    "gib_against_gb": "GiB against GB",
    "version_rule": "the engine's share",
    "block_rounding_of_the_pool": "rest of the last block",
    "padding_layers": "padding of layers and pages",
    "block_rounding": "blocks not full",
    "replicated_heads": "replicated heads",
    "draft_cache": "the draft's cache",
    "not_printed": "not printed",
    "unexplained": "unexplained",
}
"""Quantities and parts as people say them."""


def gib(size: float) -> str:
    """Bytes in GiB for people."""
    return f"{size / GIB:,.2f} GiB"


def figure(value: float, unit: str) -> str:
    """A quantity for people."""
    if unit == "bytes":
        return gib(value)
    return f"{value:,.2f}" if unit == "sequences" else f"{value:,.0f}"


def part_reasons(
    parts: PoolParts, log: ReadLog, request: ConcurrencyBody, room: Room, context: int
) -> dict[str, str]:
    """A reason for each part."""
    notes = {
        "gpu_memory": _memory(room),
        "unrequested": _share(log, request),
        "weights": _weights(parts, request),
        "activation": _activation(log, room, context),
        "non_torch": _non_torch(log, request, room),
        "cuda_graphs": _graphs(log, room),
    }
    reasons = {}
    for name in PARTS:
        measured, predicted = parts.measured.get(name), parts.predicted[name]
        if measured is None:
            reasons[name] = f"not in the log; {notes[name]}"
        elif agrees(measured, predicted):
            reasons[name] = "as predicted, to the digits printed"
        else:
            reasons[name] = notes[name]
    return reasons


def agrees(measured: Size, predicted: float) -> bool:
    """Whether the printed digits allow the predicted figure."""
    return abs(measured.bytes - predicted) <= measured.rounding + 1


def _memory(room: Room) -> str:
    gpu = room.deployment.gpu
    if gpu is None:
        return "no GPU is known"
    return {
        "memory_bytes_cuda": f"what a process sees of {gpu.name} differs a little by driver",
        "memory_bytes_reported": f"for {gpu.name} only what its driver reports is known",
        "memory_bytes": f"for {gpu.name} only the memory as sold is known",
    }[gpu.visible_memory_basis]


def _share(log: ReadLog, request: ConcurrencyBody) -> str:
    if log.engine == "vllm":
        share = request.gpu_memory_utilization
        stated = "the engine's default" if share is None else f"{share:g}"
        return f"gpu_memory_utilization ({stated}) of the memory that a process sees"
    if log.engine == "tensorrt-llm":
        return "the fraction that the engine leaves of what is free after loading"
    return "nothing is left alone"


def _weights(parts: PoolParts, request: ConcurrencyBody) -> str:
    predicted, measured = parts.predicted["weights"], parts.measured.get("weights")
    if measured is None or not predicted:
        return "weights as the config and its quantisation tell them"
    share = (measured.bytes - predicted) / predicted
    if abs(share) <= CLOSE:
        return f"{share:+.2%}, the allocator's rounding of large tensors or small copies"
    if share > 0:
        return (
            f"{share:.1%} more is loaded than the config tells: another precision or padding of "
            "the engine's kernels, adapters, a draft model"
        )
    words = (
        f"{-share:.1%} less is loaded than the config tells: another precision, or a part left out"
    )
    if request.draft_model is not None:
        words += ", as the draft, whose weights the first engine prints in a line of their own"
    return words


def _activation(log: ReadLog, room: Room, context: int) -> str:
    if log.engine == "sglang":
        return "what mem_fraction_static keeps free of the memory that was free at the start"
    if log.engine == "llama.cpp":
        return "the work buffer of a micro-batch"
    if log.engine == "tensorrt-llm":
        return "the profile run's peak"
    tokens = seqs = "the default"
    if isinstance(room, EngineRoom):
        settings = room.reserve(context).plan.settings
        tokens, seqs = f"{settings.max_num_batched_tokens:,}", f"{settings.max_num_seqs:,}"
    return f"the peak of a profile run of {tokens} tokens, sampled for {seqs} sequences"


def _non_torch(log: ReadLog, request: ConcurrencyBody, room: Room) -> str:
    if log.engine == "sglang":
        return "the process's context, and what else holds memory before weights are loaded"
    words = "contexts, libraries and collectives, of which the allocator does not know"
    if request.tensor_parallel_size > 1:
        words += f"; with TP {request.tensor_parallel_size} mostly the collectives' buffers"
    if room.deployment.gpu is not None and room.deployment.gpu.unified_memory:
        words += (
            "; one memory for CPU and GPU: the page cache and what the host allocates count too, "
            "by up to 2 GiB more or less from start to start"
        )
    return words


def _graphs(log: ReadLog, room: Room) -> str:
    if log.engine != "vllm" or not isinstance(room, EngineRoom):
        return "captured after the cache is allocated, outside its budget"
    if log.settings.enforce_eager:
        return "no graphs with enforce_eager"
    rules = room.reserve(1).plan.settings.rules
    if not rules.charges_graphs:
        return "captured after the cache is allocated: this version does not take them off"
    return "the engine's own estimate, which it takes off beforehand"


def failure_words(log: ReadLog) -> list[str]:
    """What the engine failed of, in sentences."""
    found = log.measured
    said = []
    for failure in log.failures:
        if failure == "kv_cache_too_small":
            need = "" if found.needed_kv is None else f" needs {gib(found.needed_kv.bytes)} and"
            have = found.available_kv_least
            length = (
                "" if found.concurrency_len is None else f" of {found.concurrency_len:,} tokens"
            )
            said.append(
                f"It did not start: one request{length}{need} does not fit"
                + (
                    "."
                    if have is None
                    else f" in the {gib(have.bytes)} that are left for the cache."
                )
            )
        elif failure == "no_memory_for_kv_cache":
            said.append("It did not start: weights and the profile run left nothing for the cache.")
        elif failure == "memory_taken_by_others":
            said.append(
                "It did not start: less memory was free than its share asks for, so something else "
                "holds memory on the GPU."
            )
        elif failure == "state_slots":
            slots = "too few" if found.state_slots is None else f"only {found.state_slots:,}"
            said.append(
                f"It did not start: there are {slots} blocks for recurrent states, fewer than "
                "max_num_seqs; lower max_num_seqs to that."
            )
        else:
            said.append("It ran out of GPU memory.")
    return said
