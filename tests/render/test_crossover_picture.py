"""The crossover picture says what the numbers say, and hides nothing of it."""

from io import BytesIO
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from app.catalog.models import model_catalogue
from app.render.crossover_chart import Curve, Frame, crossover_chart, marked
from app.render.crossover_curve import crossover_curve, crossover_frame
from app.render.labels import Label, place_labels
from app.resolve.model import catalogue_model
from app.schemas.request import CrossoverQuery

MISTRAL = {"model": "mistralai/Mistral-7B-v0.1", "weight_bytes": 14_483_464_192}


def curve(**fields: Any) -> Curve:
    entry = model_catalogue().find(fields["model"])
    assert entry is not None
    return crossover_curve(CrossoverQuery(**fields), catalogue_model(entry), None)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        # One byte of weights: less than the 131,072 bytes of one token.
        ({"model": "llama-3-8b", "weight_bytes": 1}, "KV dominates at any context"),
        # A full window is 4,096 x 131,072 = 536,870,912 bytes, 1,024 of them 5.5e11.
        ({**MISTRAL, "weight_bytes": 10**15}, "weights dominate at any context"),
        # 14,483,464,192 / 536,870,912 = 26.98 full windows.
        (MISTRAL, "weights dominate at any context below batch 27"),
    ],
)
def test_the_legend_says_who_dominates_where_the_line_cannot(
    fields: dict[str, Any], says: str
) -> None:
    assert curve(**fields).legend.endswith(f": {says}")


def test_the_legend_names_what_the_bytes_follow_from() -> None:
    found = curve(
        model="llama-3-8b", kv_cache_dtype="fp8", tensor_parallel_size=2, weight_bytes=16 * 10**9
    )
    assert found.legend == "meta-llama/Meta-Llama-3-8B, weights 16.00 GB, fp8_e4m3 cache, TP 2"


def test_a_window_s_line_is_drawn_to_the_top() -> None:
    frame = Frame()
    line = list(zip(*curve(**MISTRAL).line(frame), strict=True))
    at = line.index((27, frame.top_context))
    assert all(context == frame.top_context for _, context in line[:at])
    # 14,483,464,192 / 27 / 131,072 = 4,092.6
    assert line[at + 1] == (27, 4092)


def test_a_line_leaves_by_the_bottom_where_the_state_alone_exceeds_the_weights() -> None:
    frame = Frame()
    falls = Curve(
        label="", points=((1, 100), (2, 0)), crosses_from=1, cache_alone_from=2, regimes=()
    )
    assert falls.legend == ": KV dominates at any context from batch 2"
    assert falls.line(frame)[1][1] < frame.bottom_context


@pytest.mark.parametrize(
    ("batch", "context"), [(5000, 2_000_000), (1, 1), (2**53 - 1, 2**53 - 1), (32, 4096)]
)
def test_the_axes_hold_the_point_asked_about(batch: int, context: int) -> None:
    asked = CrossoverQuery(model="llama-3-8b", batch=batch, context=context)
    frame = crossover_frame(asked)
    assert 1 <= batch < frame.top_batch
    assert frame.bottom_context < context < frame.top_context
    assert crossover_chart(
        frame, (curve(**asked.model_dump(include=asked.model_fields_set)),), "png"
    )


def test_labels_lie_on_no_line_and_on_no_other_label() -> None:
    figure = Figure(figsize=(6, 4))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    line = ([0.0, 100.0], [0.0, 100.0])
    labels = [Label(x=at, y=at, text=f"point {at}\nsecond line") for at in (20, 50, 55, 80)]
    place_labels(axes, labels, [line])
    assert [text.get_text() for text in axes.texts] == [label.text for label in labels]
    boxes = [text.get_window_extent() for text in axes.texts]
    pixels = axes.transData.transform([(at / 10, at / 10) for at in range(1001)])
    for index, box in enumerate(boxes):
        assert not any(box.contains(x, y) for x, y in pixels)
        assert not box.count_overlaps(boxes[:index])
        assert axes.bbox.contains(box.x0, box.y0)
        assert axes.bbox.contains(box.x1, box.y1)
    figure.savefig(BytesIO(), format="png")


def test_several_models_mark_each_kind_of_traffic_once() -> None:
    curves = (curve(model="llama-3-8b"), curve(model="llama-3-70b"), curve(**MISTRAL))
    # Long documents are as long as the longest model takes: Mistral's 32,768.
    assert marked(curves) == {
        "short_chat": (128, 1024),
        "long_documents": (4, 32768),
        "yours": (32, 4096),
    }


def test_the_same_curves_give_the_same_bytes() -> None:
    curves = (curve(model="llama-3-8b"), curve(**MISTRAL))
    one, other = (crossover_chart(Frame(), curves, "svg") for _ in range(2))
    assert one == other
