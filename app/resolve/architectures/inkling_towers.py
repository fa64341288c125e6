"""Inkling's towers: patches folded step by step into channels, sound as embedded mel bins."""

from functools import lru_cache
from itertools import pairwise
from math import ceil, log, prod

from app.core.inventory import Part, Weight
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.common_weights import linear, vector
from app.resolve.architectures.fields import Config

CHANNEL_STEP = 64
MAX_PATCH = 1024
MAX_STEPS = 256

Scale = tuple[int, int, int, int]


def towers(config: Config, text_width: int) -> list[Weight]:
    """Weights of both towers. Defaults: InklingVisionConfig, InklingAudioConfig."""
    return [
        *_vision(config.section("vision_config"), text_width),
        *_audio(config.section("audio_config"), text_width),
    ]


def _audio(config: Config, text_width: int) -> list[Weight]:
    bins = config.integer("n_mel_bins", "num_codebooks", default=80)
    words = config.integer("mel_vocab_size", "codebook_size", default=256)
    return [
        array("model.audio.encoder", bins * words, text_width, part=Part.AUDIO),
        vector("model.audio.final_norm", text_width, part=Part.AUDIO),
    ]


def _vision(config: Config, text_width: int) -> list[Weight]:
    """One matrix from each scale to the next, the last to the text's width."""
    steps = config.integer("n_layers", "num_hidden_layers", default=24, maximum=MAX_STEPS)
    scales = _plan(
        config.integer("temporal_patch_size", default=2, maximum=MAX_PATCH),
        config.integer("patch_size", default=40, maximum=MAX_PATCH),
        steps,
        config.integer("num_channels", default=3, maximum=MAX_PATCH),
    )
    at = "model.visual.layers"
    weights = []
    for index, (start, end) in enumerate(pairwise(scales)):
        fold = prod(after // before for before, after in zip(start[:3], end[:3], strict=True))
        last = index == steps - 1
        width = text_width if last else end[3]
        weights.append(linear(f"{at}.linear_{index}", width, start[3] * fold, part=Part.VISION))
        if not last:
            weights.append(vector(f"{at}.norm_{index}", width, part=Part.VISION))
    weights.append(vector("model.visual.final_norm", text_width, part=Part.VISION))
    return weights


@lru_cache(maxsize=64)
def _plan(frames: int, patch: int, steps: int, channels: int) -> tuple[Scale, ...]:
    """The scale (time, height, width, channels) before each step and after the last: space is
    folded first, by prime factors, then time; each step takes the scale nearest to an even spacing
    of logarithms.
    """
    scales: list[Scale] = [(1, 1, 1, channels)]
    side = 1
    for factor in _primes(patch):
        side *= factor
        width = ceil(side * side * channels / CHANNEL_STEP) * CHANNEL_STEP
        scales.append((1, side, side, width))
    depth = 1
    for factor in _primes(frames):
        depth *= factor
        scales.append((depth, side, side, side * side * channels * depth * CHANNEL_STEP))
    reached = [log(prod(scale[:3])) for scale in scales]
    total = log(patch * patch * frames * channels)
    ideal = [total * step / steps for step in range(steps + 1)]
    picked = (
        [min(range(len(scales)), key=lambda j: abs(x - reached[j])) for x in ideal]
        if steps >= len(scales)
        else _assign(ideal, reached)
    )
    picked[0], picked[-1] = 0, len(scales) - 1
    return tuple(scales[index] for index in picked)


def _primes(number: int) -> list[int]:
    """Prime factors, largest first."""
    factors = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        factors.append(number)
    return factors[::-1]


def _assign(ideal: list[float], reached: list[float]) -> list[int]:
    """A different scale for each ideal, at the least total distance; both lists rise, so the
    choice does too.
    """
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for row, x in enumerate(ideal):
        following: list[tuple[float, list[int]]] = []
        for column in range(row, len(reached) - (len(ideal) - 1 - row)):
            cost, path = min(best[: column - row + 1])
            following.append((cost + abs(x - reached[column]), [*path, column]))
        best = following
    return min(best)[1]
