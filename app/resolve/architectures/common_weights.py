"""The weights of layers that families share.

Each function returns `Weight` entries (shapes are (out, in)) for the layers it is given, with
module names relative to `prefix` as Hugging Face checkpoints spell them. `at` is the path of a
layer, "model.layers.{layer}" in most models.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.core.inventory import Part, Split, Weight
from app.core.precision import Precision
from app.resolve.architectures.common_shape import Dims


def linear(
    name: str,
    out_features: int,
    in_features: int,
    *,
    part: Part,
    layers: Sequence[int] | None = None,
    bias: bool = False,
    split: Split = Split.REPLICATED,
    kv_heads: int = 0,
    experts: int = 1,
    active: int = 1,
    fused: str | None = None,
) -> Weight:
    """One linear layer."""
    return Weight(
        name=name,
        shape=(out_features, in_features),
        part=part,
        layers=None if layers is None else tuple(layers),
        bias=out_features if bias else 0,
        split=split,
        kv_heads=kv_heads,
        experts=experts,
        active=active,
        linear=True,
        fused=fused,
    )


def vector(
    name: str,
    size: int,
    *,
    part: Part = Part.NORM,
    layers: Sequence[int] | None = None,
    bias: bool = False,
    split: Split = Split.REPLICATED,
    dtype: Precision | None = None,
) -> Weight:
    """A vector of parameters: a norm's scale (and bias), a router's correction, sinks."""
    return Weight(
        name=name,
        shape=(size,),
        part=part,
        layers=None if layers is None else tuple(layers),
        bias=size if bias else 0,
        split=split,
        dtype=dtype,
    )


def vocabulary(
    dims: Dims,
    *,
    prefix: str = "",
    embed: str = "model.embed_tokens",
    head: str = "lm_head",
    head_bias: bool = False,
) -> list[Weight]:
    """The token embedding and, where it is not tied, the output head."""
    table = Weight(
        name=prefix + embed,
        shape=(dims.vocab, dims.hidden),
        part=Part.EMBEDDING,
        split=Split.VOCAB,
    )
    if dims.tied:
        return [table]
    output = linear(
        prefix + head, dims.vocab, dims.hidden, part=Part.HEAD, bias=head_bias, split=Split.VOCAB
    )
    return [table, output]


def attention(
    at: str,
    dims: Dims,
    layers: Sequence[int],
    *,
    bias: bool = False,
    out_bias: bool = False,
    v_head_dim: int | None = None,
    names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "o_proj"),
    module: str = "self_attn",
    query_gate: bool = False,
    value_from_key: bool = False,
) -> list[Weight]:
    """Grouped-query attention: q, k, v and the output projection.

    `query_gate` doubles q's width (Qwen3-Next); `value_from_key` drops the v projection. Nothing
    for no layers.
    """
    if not layers:
        return []
    v_dim = dims.head_dim if v_head_dim is None else v_head_dim
    q, k, v, o = (f"{at}.{module}.{name}" for name in names)
    kv: dict[str, Any] = {"split": Split.KV_HEADS, "kv_heads": dims.kv_heads}
    common: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers}
    q_width = dims.heads * dims.head_dim * (2 if query_gate else 1)
    weights = [
        linear(q, q_width, dims.hidden, bias=bias, split=Split.COLUMN, fused="qkv_proj", **common),
        linear(
            k,
            dims.kv_heads * dims.head_dim,
            dims.hidden,
            bias=bias,
            fused="qkv_proj",
            **kv,
            **common,
        ),
        linear(v, dims.kv_heads * v_dim, dims.hidden, bias=bias, fused="qkv_proj", **kv, **common),
        linear(o, dims.hidden, dims.heads * v_dim, bias=out_bias, split=Split.ROW, **common),
    ]
    if value_from_key:
        del weights[2]
    return weights


def output_gate(
    at: str, dims: Dims, layers: Sequence[int], *, name: str = "gate_proj", bias: bool = False
) -> Weight:
    """A gate on attention's output, one number an element of each head."""
    return linear(
        f"{at}.self_attn.{name}",
        dims.heads * dims.head_dim,
        dims.hidden,
        part=Part.ATTENTION,
        layers=layers,
        bias=bias,
        split=Split.COLUMN,
    )


def mla_attention(
    at: str,
    dims: Dims,
    layers: Sequence[int],
    *,
    q_lora_rank: int | None,
    kv_lora_rank: int,
    qk_nope_head_dim: int,
    qk_rope_head_dim: int,
    v_head_dim: int,
    bias: bool = False,
    module: str = "self_attn",
) -> list[Weight]:
    """Multi-head latent attention (arXiv:2405.04434, section 2.1), DeepSeek's module names. Nothing
    for no layers.
    """
    if not layers:
        return []
    base = f"{at}.{module}"
    common: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers}
    q_width = dims.heads * (qk_nope_head_dim + qk_rope_head_dim)
    if q_lora_rank is None:
        queries = [linear(f"{base}.q_proj", q_width, dims.hidden, split=Split.COLUMN, **common)]
    else:
        queries = [
            linear(f"{base}.q_a_proj", q_lora_rank, dims.hidden, bias=bias, **common),
            vector(f"{base}.q_a_layernorm", q_lora_rank, layers=layers),
            linear(f"{base}.q_b_proj", q_width, q_lora_rank, split=Split.COLUMN, **common),
        ]
    kv_width = dims.heads * (qk_nope_head_dim + v_head_dim)
    return [
        *queries,
        linear(
            f"{base}.kv_a_proj_with_mqa",
            kv_lora_rank + qk_rope_head_dim,
            dims.hidden,
            bias=bias,
            **common,
        ),
        vector(f"{base}.kv_a_layernorm", kv_lora_rank, layers=layers),
        linear(f"{base}.kv_b_proj", kv_width, kv_lora_rank, split=Split.COLUMN, **common),
        linear(
            f"{base}.o_proj",
            dims.hidden,
            dims.heads * v_head_dim,
            bias=bias,
            split=Split.ROW,
            **common,
        ),
    ]


def gated_mlp(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int] | None,
    *,
    bias: bool = False,
    module: str = "mlp",
    part: Part = Part.MLP,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    experts: int = 1,
    active: int = 1,
) -> list[Weight]:
    """Gate, up and down projections (SwiGLU, GeGLU); `experts` copies where it is routed."""
    gate, up, down = (f"{at}.{module}.{name}" for name in names)
    common: dict[str, Any] = {
        "part": part,
        "layers": layers,
        "bias": bias,
        "experts": experts,
        "active": active,
    }
    merged = "gate_up_proj"
    return [
        linear(gate, intermediate, hidden, split=Split.COLUMN, fused=merged, **common),
        linear(up, intermediate, hidden, split=Split.COLUMN, fused=merged, **common),
        linear(down, hidden, intermediate, split=Split.ROW, **common),
    ]


def plain_mlp(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int] | None,
    *,
    bias: bool = False,
    module: str = "mlp",
    part: Part = Part.MLP,
    names: tuple[str, str] = ("up_proj", "down_proj"),
    experts: int = 1,
    active: int = 1,
) -> list[Weight]:
    """Two projections with a pointwise activation between them."""
    up, down = (f"{at}.{module}.{name}" for name in names)
    common: dict[str, Any] = {
        "part": part,
        "layers": layers,
        "bias": bias,
        "experts": experts,
        "active": active,
    }
    return [
        linear(up, intermediate, hidden, split=Split.COLUMN, **common),
        linear(down, hidden, intermediate, split=Split.ROW, **common),
    ]


def routed_experts(
    at: str,
    hidden: int,
    intermediate: int,
    layers: Sequence[int],
    *,
    num_experts: int,
    top_k: int,
    bias: bool = False,
    module: str = "mlp.experts.{expert}",
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
) -> list[Weight]:
    """`num_experts` gated MLPs a layer, of which a token uses `top_k`."""
    return gated_mlp(
        at,
        hidden,
        intermediate,
        layers,
        bias=bias,
        module=module,
        part=Part.ROUTED_EXPERTS,
        names=names,
        experts=num_experts,
        active=min(top_k, num_experts),
    )


def router(
    at: str,
    hidden: int,
    num_experts: int,
    layers: Sequence[int],
    *,
    module: str = "mlp.gate",
    bias: bool = False,
) -> Weight:
    """The routing matrix; engines keep it replicated and unquantised."""
    weight = linear(
        f"{at}.{module}", num_experts, hidden, part=Part.ROUTER, layers=layers, bias=bias
    )
    return replace(weight, linear=False)


def norms(
    at: str, size: int, layers: Sequence[int], *names: str, bias: bool = False
) -> list[Weight]:
    """One norm vector a name in each layer."""
    return [vector(f"{at}.{name}", size, layers=layers, bias=bias) for name in names]
