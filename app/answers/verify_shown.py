"""A log as read, and its measurements as further requests take them, for the answer."""

from dataclasses import asdict

from app.answers.verify_measured import measured_parts, pool_of, tokens_of
from app.logs.reading import ReadLog
from app.logs.templates import Size
from app.schemas.request import MeasuredParts
from app.schemas.verify import LogRead, LogSettingsRead, MeasuredRead, PoolRead, RankRead

_MAY_BE_NOTHING = {"activation_bytes", "non_torch_bytes", "cuda_graph_bytes"}


def calibration(log: ReadLog) -> MeasuredParts | None:
    """The measurements of the first rank; its cache is that of the rank with least.

    SGLang's activations are its fraction's doing, llama.cpp's cache its context's: neither is a
    measurement of anything else.
    """
    sizes = measured_parts(log, charges_graphs=True)
    pool = log.measured.available_kv_least or pool_of(log.measured)
    names = {
        "gpu_memory_bytes": sizes.get("gpu_memory"),
        "weight_bytes": sizes.get("weights"),
        "activation_bytes": sizes.get("activation") if log.engine != "sglang" else None,
        "non_torch_bytes": sizes.get("non_torch"),
        "cuda_graph_bytes": sizes.get("cuda_graphs"),
        "kv_budget_bytes": pool if log.engine != "llama.cpp" else None,
    }
    found = {name: size.bytes for name, size in names.items() if size is not None}
    kept = {
        name: size
        for name, size in found.items()
        if size > 0 or (size == 0 and name in _MAY_BE_NOTHING)
    }
    return MeasuredParts.model_validate(kept) if kept else None


def shown(log: ReadLog) -> LogRead:
    """The log as read."""
    found = log.measured
    return LogRead(
        engine=log.engine,
        engine_version=log.version,
        gpu=log.gpu,
        settings=LogSettingsRead(**asdict(log.settings)),
        measured=MeasuredRead(
            gpu_memory_bytes=_bytes(found.total),
            free_at_start_bytes=_bytes(found.free_at_start),
            requested_bytes=_bytes(found.requested),
            free_after_load_bytes=_bytes(found.free_after_load),
            weight_bytes=_bytes(found.weights),
            activation_bytes=_bytes(found.activation),
            non_torch_bytes=_bytes(found.non_torch),
            cuda_graph_bytes=_bytes(found.graphs),
            cuda_graph_estimate_bytes=_bytes(found.graphs_estimated),
            kv_pool_bytes=_bytes(found.available_kv),
            kv_pool_least_bytes=_bytes(found.available_kv_least),
            state_bytes=_bytes(found.state),
            kv_cache_tokens=tokens_of(log),
            num_blocks=found.num_blocks,
            max_concurrency=found.max_concurrency,
            concurrency_context=found.concurrency_len,
            needed_kv_bytes=_bytes(found.needed_kv),
            estimated_max_len=found.estimated_max_len,
            state_slots=found.state_slots,
            pools=[
                PoolRead(tokens=pool.tokens, size_bytes=pool.size.bytes, layers=pool.layers)
                for pool in found.pools
            ],
        ),
        ranks=[
            RankRead(
                stage=rank.stage,
                rank=rank.rank,
                weight_bytes=_bytes(rank.weights),
                kv_pool_bytes=_bytes(rank.available_kv),
            )
            for rank in log.ranks
        ],
        failures=list(log.failures),
    )


def _bytes(size: Size | None) -> int | None:
    return None if size is None else size.bytes
