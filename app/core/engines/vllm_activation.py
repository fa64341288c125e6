"""The peak of vLLM's profile run above what stands: `max(sampler, forward pass, encoder)`.

The run pushes `max_num_batched_tokens` through the model, samples for `max_num_seqs` sequences and
encodes the largest items a batch may hold (`profile_run` of the model runners). What each allocates
follows from the config; the few constants are fitted on startup logs and named so.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from app.core.engines.budgets import MIB
from app.core.engines.vllm_arguments import VllmSettings
from app.core.engines.vllm_facts import model_facts
from app.core.engines.vllm_weights import WHOLE_TOWERS
from app.core.inventory import Part, Split
from app.core.model import ModelShape

FP32_BYTES = 4
MULTIPROCESSORS = 132
"""Of an H100; the sampler's filter keeps a row of the vocabulary for each (`num_sms`)."""
FILTER_FROM = 8
"""Sequences from which that filter is used."""
SAMPLER_REST = 51 * MIB
FORWARD_REST = 16 * MIB
"""Fitted: what is in neither formula."""
ENCODER_REST = 100 * MIB
STREAMS = 4
"""Copies of the hidden state alive at the widest point: residual, norm, input and output."""
FIRST_STREAMS = 3
DYNAMIC = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
LARGEST_PICTURE = 16384
"""Tokens of the largest picture that these families' processors make; others fill the batch's
budget. A pair of video frames may be as large.
"""
FRAME_PAIRS = {"qwen2_vl": 7, "qwen2_5_vl": 7}
"""The longest dummy video of a family, as far as it fits `max_model_len` (`models/qwen2_vl.py`)."""
POOLED_PATCHES = {"gemma3": 16}
"""Patches a token stands for, where no projector's width tells it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Widths:
    """Sizes of a model's widest layers; 0 where it has none of the kind.

    Attributes:
        dense: Width of an MLP, and the number of matrices into it (2 where it is gated).
        states: Outputs of the projections into a recurrent layer.
        experts: Width of one routed expert, `active` of which a token uses.
        packed_experts: Experts are MXFP4, whose kernels need no workspace.
        tower: (MLP width, hidden width, patches a token) of a vision tower.
        tower_inputs: Matrices into the tower's MLP.
    """

    dense: int
    inputs: int
    states: int
    experts: int
    active: int
    packed_experts: bool
    tower: tuple[int, int, int]
    tower_inputs: int


@lru_cache(maxsize=512)
def widths_of(shape: ModelShape) -> Widths:
    """Read off the inventory; shapes are compared by identity, so each is read once."""
    dense = inputs = states = experts = active = tower = patch = 0
    projector = packed = 0
    for weight in shape.weights:
        if len(weight.shape) != 2 or not weight.linear:
            continue
        out, into = weight.shape
        if weight.part in (Part.MLP, Part.SHARED_EXPERTS) and weight.split is Split.ROW:
            dense = max(dense, into)
        elif weight.part is Part.MLP and weight.fused:
            inputs = 2
        elif weight.part is Part.STATE and weight.split is Split.COLUMN:
            states += out
        elif weight.part is Part.ROUTED_EXPERTS and weight.split is Split.ROW:
            experts, active = max(experts, into), weight.active
        elif weight.part is Part.VISION and weight.split is Split.ROW:
            tower, patch = max(tower, into), out
        elif weight.part is Part.PROJECTOR and not projector:
            projector = into
    described = shape.quantization or {}
    packed = described.get("quant_method") == "mxfp4"
    per_token = max(projector // patch, 1) if patch and projector else 1
    per_token = POOLED_PATCHES.get(shape.model_type, per_token)
    return Widths(
        dense=dense,
        inputs=inputs or 1,
        states=states,
        experts=experts,
        active=active,
        packed_experts=bool(packed),
        tower=(tower, patch, per_token),
        tower_inputs=_tower_inputs(shape, tower),
    )


def _tower_inputs(shape: ModelShape, width: int) -> int:
    """How many matrices lead into the tower's MLP."""
    names = {
        weight.name
        for weight in shape.weights
        if weight.part is Part.VISION
        and weight.split is Split.COLUMN
        and weight.linear
        and weight.shape[0] == width
    }
    return min(max(len(names), 1), 2)


def activation_peak(
    shape: ModelShape,
    settings: VllmSettings,
    *,
    first_stage: bool = True,
    last_stage: bool = True,
    quantised_inputs: bool = False,
) -> int:
    """Bytes of the peak on one GPU of a pipeline stage.

    `quantised_inputs`: activations are quantised on the way into each matrix (W8A8).
    """
    item = ceil(shape.dtype.bytes_per_element)
    widths = widths_of(shape)
    rules, tp = settings.rules, settings.tensor_parallel_size
    tokens = settings.max_num_batched_tokens
    stream = item * tokens * shape.hidden_size
    workspaces = _workspaces(shape, widths, item * tokens, tp)
    forward = _forward(shape, widths, settings, item, quantised_inputs=quantised_inputs)
    forward += workspaces + FORWARD_REST
    if settings.pipeline_parallel_size > 1:
        forward += 2 * stream
    encoder = encoder_peak(shape, settings) if first_stage else 0
    if rules.core == "v0" or not last_stage or model_facts(shape).pooling:
        return max(forward, encoder)
    sampler = _sampler(shape, settings, item) + stream + SAMPLER_REST
    if rules.standing_workspaces:
        sampler += workspaces
    if encoder:
        sampler += stream + ENCODER_REST
    return max(forward, sampler, encoder)


def standing_sampler_bytes(shape: ModelShape, settings: VllmSettings) -> int:
    """Counts of every token and a mask, kept for every sequence (`gpu/sample/penalties.py`)."""
    who = settings.rules.sampler_state_of
    widths = widths_of(shape)
    dense = not widths.experts and not model_facts(shape).states
    if not settings.rules.whole_consumption or not (who == "all" or (who == "dense" and dense)):
        return 0
    if model_facts(shape).pooling:
        return 0
    return settings.max_num_seqs * shape.vocab_size * (8 * FP32_BYTES + 1) // 8


def _sampler(shape: ModelShape, settings: VllmSettings, item: int) -> int:
    rules = settings.rules
    sequences = min(settings.max_num_seqs, settings.max_num_batched_tokens)
    per_logit = rules.sampler_bytes - 2 + item
    size = per_logit * sequences * shape.vocab_size
    if rules.sampler_buffer and sequences >= FILTER_FROM:
        rows = min(1 << (min(MULTIPROCESSORS, sequences) - 1).bit_length(), MULTIPROCESSORS)
        size += FP32_BYTES * rows * shape.vocab_size
    return size


def _forward(
    shape: ModelShape,
    widths: Widths,
    settings: VllmSettings,
    item: int,
    *,
    quantised_inputs: bool,
) -> int:
    """The widest layer: what goes into its second matrix, and the streams beside it."""
    tokens, tp = settings.max_num_batched_tokens, settings.tensor_parallel_size
    streams = FIRST_STREAMS if settings.rules.core == "v0" else STREAMS
    between = (widths.inputs + 1) * widths.dense // tp
    between = max(between, widths.states // tp)
    size = item * tokens * (between + streams * shape.hidden_size)
    return size + (tokens * widths.dense // tp if quantised_inputs else 0)


def _workspaces(shape: ModelShape, widths: Widths, item_tokens: int, tp: int) -> int:
    """Buffers between the matrices of routed experts (`fused_moe`), reused by every layer."""
    if not widths.experts or widths.packed_experts:
        return 0
    own, hidden = widths.experts // tp, shape.hidden_size
    return item_tokens * widths.active * (max(own, hidden) + max(2 * own, hidden))


def encoder_peak(shape: ModelShape, settings: VllmSettings) -> int:
    """The tower over the largest items of a batch, and their outputs, which stay; 0 without one."""
    item = ceil(shape.dtype.bytes_per_element)
    widths = widths_of(shape)
    wide, hidden, per_token = widths.tower
    if not hidden or "multimodal" not in shape.traits:
        return 0
    tokens = max(settings.max_num_batched_tokens, _largest_item(shape.model_type, settings))
    shared = 1 if shape.model_type in WHOLE_TOWERS else settings.tensor_parallel_size
    between = (widths.tower_inputs + 1) * wide // shared
    inside = item * tokens * per_token * (between + STREAMS * hidden)
    return inside + item * tokens * shape.hidden_size


def _largest_item(model_type: str, settings: VllmSettings) -> int:
    """Tokens of the largest picture or video of a family that sizes them itself."""
    if not model_type.startswith(DYNAMIC):
        return 0
    fitting = settings.max_model_len // LARGEST_PICTURE
    pairs = 1
    for name, most in FRAME_PAIRS.items():
        if model_type.startswith(name):
            pairs = min(most, fitting)
    if model_type.startswith("qwen3_vl") and not settings.rules.bounds_videos:
        pairs = fitting
    return max(pairs, 1) * LARGEST_PICTURE
