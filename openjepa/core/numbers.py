"""Number types for options: a value out of range is refused when the config is read."""

from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from openjepa.core.duration import Duration

DurationField = Annotated[Duration, BeforeValidator(Duration.parse), PlainSerializer(str)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Above = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Beta = Annotated[float, Field(ge=0, lt=1)]
