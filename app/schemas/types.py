"""Field types and base models of every request and answer.

A request exists twice with the same names: as a query model, which reads text and therefore is
lax, and as its strict subclass for a JSON body, which takes no ``true`` and no ``"7"`` for an
integer. JSON Schema counts ``3.0`` as an integer, so both take it.

::

    class KvQuery(QueryModel):
        context: Count = 1

    class KvBody(KvQuery, BodyModel): ...
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

MAX_EXACT = 2**53 - 1
"""The largest integer that every JSON reader keeps exact (RFC 8259, section 6)."""

_INTEGER_TEXT = re.compile(r"-?[0-9]{1,20}")
_NUMBER_TEXT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_FLAG_TEXT = frozenset({"true", "false", "True", "False", "1", "0"})


def integral(value: Any) -> Any:
    """A whole float as the integer it is; text only in plain decimal digits."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and not _INTEGER_TEXT.fullmatch(value):
        raise PydanticCustomError("int_parsing", "Input should be an integer in plain digits")
    return value


def finite(value: Any) -> Any:
    """Text only as a decimal number; everything else is left to the field."""
    if type(value) is str and not _NUMBER_TEXT.fullmatch(value):
        raise PydanticCustomError("float_parsing", "Input should be a decimal number")
    return value


def flag(value: Any) -> Any:
    """Text only as true, false, 1 or 0; numbers never. What a text means, the field says."""
    if type(value) is str and value not in _FLAG_TEXT:
        raise PydanticCustomError("bool_parsing", "Input should be true or false")
    if type(value) not in {str, bool}:
        raise PydanticCustomError("bool_type", "Input should be true or false")
    return value


@dataclass(frozen=True, slots=True)
class Whole:
    """Bounds of an integer field, both included: ``Annotated[int, Whole(1, 64)]``.

    The whole schema at once: bounds that are added outside a validator are checked, but OpenAPI
    states the inner ones.
    """

    low: int
    high: int = MAX_EXACT

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> CoreSchema:
        """An integer within the bounds, from whatever `integral` takes for one."""
        bounded = core_schema.int_schema(ge=self.low, le=self.high)
        return core_schema.no_info_before_validator_function(integral, bounded)


Count = Annotated[int, Whole(1)]
"""Tokens, sequences, GPUs: at least one."""

Natural = Annotated[int, Whole(0)]
"""Bytes and other amounts that may be none."""

Fraction01 = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), BeforeValidator(finite)]
"""A share above none and up to all: an efficiency, a utilisation."""

Share = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), BeforeValidator(finite)]
"""An overhead or headroom as a fraction, none included."""

Positive = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False), BeforeValidator(finite)]
"""A rate or a duration: finite and above zero."""

Flag = Annotated[bool, BeforeValidator(flag)]


def none_given(description: str) -> Any:
    """A list field that is empty by default, and says so in the schema.

    A default that is a list would be copied deeply for each request.
    """
    return Field(default_factory=list, json_schema_extra={"default": []}, description=description)


class QueryModel(BaseModel):
    """Base of what is read from a query string: lax about text, strict about names."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), hide_input_in_errors=True
    )


class BodyModel(BaseModel):
    """Base of what is read from a JSON body, mixed into its query model."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        protected_namespaces=(),
        hide_input_in_errors=True,
        ser_json_inf_nan="constants",  # requests are written as keys of caches: inf is not null
    )


class AnswerModel(BaseModel):
    """Base of every answer: finite numbers only, and no field that the schema does not name."""

    model_config = ConfigDict(
        extra="forbid", allow_inf_nan=False, protected_namespaces=(), hide_input_in_errors=True
    )
