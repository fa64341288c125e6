"""The crossover curve as a picture: batch across, context up, both logarithmic.

matplotlib is imported only when a picture is drawn; its import costs more than a request.
"""

import io
from dataclasses import dataclass
from math import ceil, floor, log2
from typing import TYPE_CHECKING, Literal

from app.render.labels import Label, place_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PictureFormat = Literal["svg", "png"]

_COLOURS = ("#0b5fa5", "#c24e00", "#2f7d32", "#7b3fa0", "#8a6d00", "#a3123f", "#00707a", "#555555")
_STYLES = ("-", "--", "-.", ":")
_KV, _WEIGHTS = "#c24e00", "#0b5fa5"


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """What the axes show: batches from 1 on, contexts between two ends."""

    top_batch: int = 2**10
    bottom_context: float = 2**6
    top_context: int = 2**20

    @classmethod
    def around(cls, batch: int, context: int) -> "Frame":
        """The usual axes, wider where the point would lie near their edge or beyond."""
        usual = cls()
        return cls(
            top_batch=max(usual.top_batch, 2 ** ceil(log2(batch) + 2)),
            bottom_context=min(usual.bottom_context, 2.0 ** floor(log2(context) - 2)),
            top_context=max(usual.top_context, 2 ** ceil(log2(context) + 2)),
        )

    @property
    def batches(self) -> tuple[int, ...]:
        """Where a curve is sampled: four times an octave."""
        steps = range(round(4 * log2(self.top_batch)) + 1)
        return tuple(dict.fromkeys(round(2 ** (step / 4)) for step in steps))


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One model: at which context each batch crosses over.

    Attributes:
        label: Its name, and what its bytes follow from.
        points: Batch and context; None where no context reaches the weights, 0 where the cache
            exceeds them from the first token on.
        crosses_from: Smallest batch in the frame with a context; None where none has one.
        cache_alone_from: Smallest batch in the frame with context 0; None where none has it.
        regimes: Name, batch and context of each kind of traffic.
    """

    label: str
    points: tuple[tuple[int, int | None], ...]
    crosses_from: int | None
    cache_alone_from: int | None
    regimes: tuple[tuple[str, int, int], ...]

    @property
    def legend(self) -> str:
        """The label, and in words what the line cannot show."""
        if self.crosses_from is None:
            return f"{self.label}: weights dominate at any context"
        if self.cache_alone_from == 1:
            return f"{self.label}: KV dominates at any context"
        parts = [self.label]
        if self.crosses_from > 1:
            parts.append(f"weights dominate at any context below batch {self.crosses_from:,}")
        if self.cache_alone_from is not None:
            parts.append(f"KV dominates at any context from batch {self.cache_alone_from:,}")
        return ": ".join((parts[0], "; ".join(parts[1:]))) if parts[1:] else parts[0]

    def line(self, frame: Frame) -> tuple[list[int], list[float]]:
        """The border between the two regions over the whole width: at the top or below the frame
        where there is none, upright where a batch has one and the next smaller has none.
        """
        across: list[int] = []
        up: list[float] = []
        below = frame.bottom_context / 8
        for batch, context in self.points:
            if batch == self.crosses_from and batch > 1:
                across.append(batch)
                up.append(frame.top_context)
            across.append(batch)
            up.append(frame.top_context if context is None else max(context, below))
        return across, up


def crossover_chart(frame: Frame, curves: tuple[Curve, ...], kind: PictureFormat) -> bytes:
    """The picture; the same curves give the same bytes."""
    from matplotlib import rc_context  # noqa: PLC0415 -- only when a picture is asked for
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 -- as above
    from matplotlib.figure import Figure  # noqa: PLC0415 -- as above

    with rc_context({"svg.hashsalt": "kvmath", "svg.fonttype": "path", "font.size": 11}):
        figure = Figure(figsize=(9.6, 6.4 + 0.22 * len(curves)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for index, curve in enumerate(curves):
            _draw(axes, frame, curve, index)
        _describe(axes, frame)
        _name_regions(axes, frame, curves)
        _mark_regimes(axes, frame, curves)
        out = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, dpi=120, metadata=metadata)
    return out.getvalue()


def _draw(axes: "Axes", frame: Frame, curve: Curve, index: int) -> None:
    across, up = curve.line(frame)
    shown = [
        (batch, context)
        for batch, context in zip(across, up, strict=True)
        if curve.crosses_from is not None and batch >= curve.crosses_from
    ]
    if curve.cache_alone_from == 1:
        shown = []
    axes.plot(
        [batch for batch, _ in shown],
        [context for _, context in shown],
        _STYLES[index % len(_STYLES)],
        color=_COLOURS[index % len(_COLOURS)],
        linewidth=2.2,
        label=curve.legend,
    )


def _name_regions(axes: "Axes", frame: Frame, curves: tuple[Curve, ...]) -> None:
    """Both sides of one curve in colour; of several, in words."""
    kv, weights = (
        "KV reads dominate: quantise the KV cache",
        "weight reads dominate: quantise the weights",
    )
    if len(curves) == 1:
        across, up = curves[0].line(frame)
        axes.fill_between(across, up, frame.top_context, color=_KV, alpha=0.08, linewidth=0)
        axes.fill_between(across, frame.bottom_context, up, color=_WEIGHTS, alpha=0.08, linewidth=0)
        kv = "" if curves[0].crosses_from is None else kv
        weights = "" if curves[0].cache_alone_from == 1 else weights
    else:
        kv, weights = f"above its line {kv}", f"below its line {weights}"
    whole = axes.transAxes
    axes.text(0.98, 0.97, kv, transform=whole, ha="right", va="top", color="#8a3800")
    axes.text(0.02, 0.03, weights, transform=whole, ha="left", va="bottom", color="#083f6e")


def marked(curves: tuple[Curve, ...]) -> dict[str, tuple[int, int]]:
    """Batch and context of each kind of traffic: the same for all models but where a model's own
    maximum is shorter.
    """
    marks: dict[str, tuple[int, int]] = {}
    for curve in curves:
        for name, batch, context in curve.regimes:
            marks[name] = max(marks.get(name, (batch, context)), (batch, context))
    return marks


def _mark_regimes(axes: "Axes", frame: Frame, curves: tuple[Curve, ...]) -> None:
    labels = [
        Label(
            x=batch,
            y=context,
            text=f"{name.replace('_', ' ')}\nbatch {batch:,}, {context:,} tokens",
        )
        for name, (batch, context) in marked(curves).items()
    ]
    for label in labels:
        axes.plot([label.x], [label.y], "o", color="#222222", markersize=6, clip_on=False)
    place_labels(axes, labels, [curve.line(frame) for curve in curves])


def _describe(axes: "Axes", frame: Frame) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator  # noqa: PLC0415 -- see above

    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlim(1, frame.top_batch)
    axes.set_ylim(frame.bottom_context, frame.top_context)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.yaxis.set_major_locator(LogLocator(base=2, numticks=16))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _amount(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _amount(value)))
    axes.set_xlabel("batch (sequences decoding together)")
    axes.set_ylabel("context (tokens per sequence)")
    axes.set_title("Where reading the KV cache costs as much as reading the weights")
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=1, frameon=False, fontsize=9)


def _amount(value: float) -> str:
    for unit, name in ((2**40, "T"), (2**30, "G"), (2**20, "M"), (2**10, "k")):
        if value >= unit and value % unit == 0:
            return f"{int(value) // unit}{name}"
    return f"{value:g}" if value >= 1 else ""
