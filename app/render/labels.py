"""Labels beside points of a picture, each where it hides least."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

_SIDES = (
    (9, 7, "left", "bottom"),
    (9, -7, "left", "top"),
    (-9, 7, "right", "bottom"),
    (-9, -7, "right", "top"),
    (0, 14, "center", "bottom"),
    (0, -14, "center", "top"),
)
_DISTANCES = (1, 2, 3, 4)
_BETWEEN = 12
"""Places looked at between two points of a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """Words for a point, in the units of the axes."""

    x: float
    y: float
    text: str


def place_labels(
    axes: "Axes",
    labels: Sequence[Label],
    lines: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> None:
    """Write each label on that side of its point where it lies on no line, point or other label,
    nor outside the axes; where there is no such side, on the one with the least of these.
    """
    from matplotlib.patheffects import withStroke  # noqa: PLC0415 -- with the picture alone

    if (figure := axes.get_figure(root=True)) is not None:
        figure.draw_without_rendering()
    taken: list[Bbox] = [text.get_window_extent() for text in axes.texts if text.get_text()]
    marks = [axes.transData.transform((label.x, label.y)) for label in labels]
    spots = [*_along(axes, lines), *((x, y) for x, y in marks for _ in range(_BETWEEN))]
    for label in labels:
        best = None
        for distance, (right, above, across, up) in product(_DISTANCES, _SIDES):
            text = axes.annotate(
                label.text,
                (label.x, label.y),
                textcoords="offset points",
                xytext=(right * distance, above * distance),
                ha=across,
                va=up,
                fontsize=9,
                path_effects=[withStroke(linewidth=2, foreground="white")],
            )
            box = text.get_window_extent()
            cost = 1000 * _outside(box, axes.bbox) + 0.1 * distance
            cost += sum(box.contains(x, y) for x, y in spots)
            cost += 50 * box.count_overlaps(taken)
            if best is not None and best[0] <= cost:
                text.remove()
                continue
            if best is not None:
                best[1].remove()
            best = (cost, text, box)
        if best is not None:
            taken.append(best[2])


def _along(
    axes: "Axes", lines: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> list[tuple[float, float]]:
    """Places on the lines, in pixels."""
    found = []
    for across, up in lines:
        pixels = axes.transData.transform(list(zip(across, up, strict=True)))
        for (x, y), (next_x, next_y) in pairwise(pixels):
            found += [
                (x + (next_x - x) * step / _BETWEEN, y + (next_y - y) * step / _BETWEEN)
                for step in range(_BETWEEN)
            ]
    return found


def _outside(box: "Bbox", axes: "Bbox") -> int:
    corners = ((box.x0, box.y0), (box.x1, box.y1))
    return sum(not axes.contains(x, y) for x, y in corners)
