"""What a model's weights take when an engine loads them, and what that takes for granted.

In this order: what the request asks for; the checkpoint's own total, spread as its description
says; the description alone.
"""

from app.core.model import ModelShape
from app.core.precision import Precision, precision
from app.core.published import published_storage
from app.core.quantization import Scheme, scheme_storage
from app.core.weights import StoredBytes, uniform_storage
from app.errors import InputError
from app.resolve.quantization import method_of, scheme_of
from app.resolve.quantization.requested import NONE, requested_name, requested_scheme

HALF_BITS = 16
Loaded = tuple[StoredBytes, tuple[str, ...]]


def weight_storage(
    shape: ModelShape,
    *,
    checkpoint_bytes: int | None = None,
    total_given: bool = False,
    dtype: str | None = None,
    quantization: str | None = None,
) -> Loaded:
    """How the weights are loaded.

    Args:
        shape: The model.
        checkpoint_bytes: Bytes of its published tensors, where the checkpoint says so.
        total_given: Whether the caller states the total, so that only its spread is asked for.
        dtype: A precision in place of the checkpoint's. Below 16 bits every parameter is counted
            in it; else what is not quantised.
        quantization: A method in place of the checkpoint's.

    Raises:
        InputError: on a precision or a method that is not known.
    """
    asked = None if dtype in (None, "auto") else precision(dtype or "")
    if quantization is not None:
        name = requested_name(quantization)
        own = requested_name(method_of(shape.quantization)) if shape.quantization else NONE
        if name != own and not (name.startswith("modelopt") and own.startswith("modelopt")):
            return _as_requested(shape, name, asked or shape.dtype)
    if asked is not None:
        return _in_precision(shape, asked)
    return _as_published(shape, checkpoint_bytes, total_given=total_given)


def _as_requested(shape: ModelShape, name: str, kept: Precision) -> Loaded:
    scheme = requested_scheme(name, kept.name)
    notes = scheme.assumptions
    if shape.quantization:
        own = method_of(shape.quantization) or "another method"
        notes = (*notes, f"the checkpoint's own quantisation ({own}) is left out of account")
    return scheme_storage(scheme, kept), notes


def _in_precision(shape: ModelShape, asked: Precision) -> Loaded:
    if not shape.quantization or asked.bits < HALF_BITS:
        return uniform_storage(asked), ()
    scheme = scheme_of(shape.quantization)
    return scheme_storage(scheme, asked), scheme.assumptions


def _as_published(shape: ModelShape, checkpoint_bytes: int | None, *, total_given: bool) -> Loaded:
    in_file = shape.checkpoint_dtype or shape.dtype
    notes = _precision_notes(shape)
    scheme = Scheme(name=NONE, rules=())
    if shape.quantization:
        try:
            scheme = scheme_of(shape.quantization)
        except InputError as unknown:
            if checkpoint_bytes is None and not total_given:
                raise
            why = unknown.errors[0].msg
            notes = (*notes, f"{why}: the total is spread as if nothing were quantised")
    loaded = scheme_storage(scheme, shape.dtype)
    notes = (*notes, *scheme.assumptions)
    if checkpoint_bytes is None:
        return loaded, notes
    published = published_storage(
        shape,
        scheme_storage(scheme, in_file),
        loaded,
        checkpoint_bytes,
        recast=not shape.quantization,
    )
    return published.stored, (*notes, *published.notes)


def _precision_notes(shape: ModelShape) -> tuple[str, ...]:
    stored = shape.checkpoint_dtype
    if stored is None:
        return (f"the config states no precision: weights are counted in {shape.dtype.name}",)
    if stored != shape.dtype:
        return (f"the checkpoint stores {stored.name}; engines load it as {shape.dtype.name}",)
    return ()
