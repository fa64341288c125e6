"""A page for each kind of problem, so that the ``type`` of a problem document leads somewhere."""

import inspect
from typing import Annotated

from fastapi import Path

from app.api.routing import api_router
from app.errors import NotFound
from app.problems import KINDS, clip
from app.schemas.problem import ProblemKind

router = api_router("problems")

_BY_SLUG = {
    kind.slug: ProblemKind(
        type=f"/problems/{kind.slug}",
        title=kind.title,
        status=kind.status,
        description=inspect.cleandoc(error.__doc__ or "").partition("\n\n")[0].replace("\n", " "),
    )
    for error, kind in KINDS.items()
    if error is not Exception
}


@router.get("/problems", summary="All kinds of problems")
async def problems() -> list[ProblemKind]:
    """Each kind with its status, most general first."""
    return list(_BY_SLUG.values())


@router.get("/problems/{slug}", summary="One kind of problem")
async def problem_kind(slug: Annotated[str, Path(examples=["unknown-gpu"])]) -> ProblemKind:
    """What the ``type`` of a problem document means."""
    if slug not in _BY_SLUG:
        raise NotFound(f"No kind of problem is called {clip(slug)!r}.")
    return _BY_SLUG[slug]
