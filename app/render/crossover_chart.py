"""The crossover curve as a picture: batch across, context up, both logarithmic.

matplotlib is imported only when a picture is drawn; its import costs more than a request.
"""

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PictureFormat = Literal["svg", "png"]

_BATCHES = tuple(dict.fromkeys(round(2 ** (step / 4)) for step in range(41)))
_TOP_CONTEXT = 2**20
_BOTTOM_CONTEXT = 64
_COLOURS = ("#0b5fa5", "#c24e00", "#2f7d32", "#7b3fa0", "#8a6d00", "#a3123f", "#00707a", "#555555")
_STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One model: its name, and the context at which each batch crosses over (None: never)."""

    label: str
    contexts: tuple[int | None, ...]
    regimes: tuple[tuple[str, int, int], ...]
    """Name, batch and context of each traffic regime."""


def batches() -> tuple[int, ...]:
    """The batches at which a curve is sampled."""
    return _BATCHES


def crossover_chart(curves: tuple[Curve, ...], kind: PictureFormat) -> bytes:
    """The picture; the same curves give the same bytes."""
    from matplotlib import rc_context  # noqa: PLC0415 -- only when a picture is asked for
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 -- as above
    from matplotlib.figure import Figure  # noqa: PLC0415 -- as above

    with rc_context({"svg.hashsalt": "kvmath", "svg.fonttype": "path", "font.size": 11}):
        figure = Figure(figsize=(9.6, 6.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for index, curve in enumerate(curves):
            _draw(axes, curve, _COLOURS[index % len(_COLOURS)], _STYLES[index % len(_STYLES)])
        if len(curves) == 1:
            _shade(axes, curves[0])
        _mark_regimes(axes, curves[0])
        _label(axes)
        out = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, dpi=120, metadata=metadata)
    return out.getvalue()


def _points(curve: Curve) -> tuple[list[int], list[int]]:
    pairs = [
        (batch, context)
        for batch, context in zip(_BATCHES, curve.contexts, strict=True)
        if context is not None and context > 0
    ]
    return [batch for batch, _ in pairs], [context for _, context in pairs]


def _draw(axes: "Axes", curve: Curve, colour: str, style: str) -> None:
    across, up = _points(curve)
    label = curve.label if across else f"{curve.label}: weights dominate at any context"
    axes.plot(across, up, style, color=colour, linewidth=2.2, label=label)


def _shade(axes: "Axes", curve: Curve) -> None:
    across, up = _points(curve)
    if not across:
        return
    axes.fill_between(across, up, _TOP_CONTEXT, color="#c24e00", alpha=0.08, linewidth=0)
    axes.fill_between(across, _BOTTOM_CONTEXT, up, color="#0b5fa5", alpha=0.08, linewidth=0)


def _mark_regimes(axes: "Axes", curve: Curve) -> None:
    for name, batch, context in curve.regimes:
        axes.plot([batch], [context], "o", color="#222222", markersize=6)
        axes.annotate(
            f"{name.replace('_', ' ')}\nbatch {batch}, {context:,} tokens",
            (batch, context),
            textcoords="offset points",
            xytext=(8, 6),
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )


def _label(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator  # noqa: PLC0415 -- see above

    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlim(_BATCHES[0], _BATCHES[-1])
    axes.set_ylim(_BOTTOM_CONTEXT, _TOP_CONTEXT)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.yaxis.set_major_locator(LogLocator(base=2, numticks=16))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tokens(value)))
    axes.set_xlabel("batch (sequences decoding together)")
    axes.set_ylabel("context (tokens per sequence)")
    axes.set_title("Where reading the KV cache costs as much as reading the weights")
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.text(
        0.98,
        0.97,
        "KV reads dominate: quantise the KV cache",
        transform=axes.transAxes,
        ha="right",
        va="top",
        color="#8a3800",
    )
    axes.text(
        0.02,
        0.03,
        "weight reads dominate: quantise the weights",
        transform=axes.transAxes,
        ha="left",
        va="bottom",
        color="#083f6e",
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)


def _tokens(value: float) -> str:
    whole = int(value)
    return f"{whole // 1024}k" if whole >= 1024 and whole % 1024 == 0 else f"{whole}"
