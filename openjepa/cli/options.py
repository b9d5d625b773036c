"""Options that several verbs share."""

from typing import Annotated

from cyclopts import Parameter

Overrides = Annotated[list[str] | None, Parameter(name="--set", negative=(), consume_multiple=False)]
AsJson = Annotated[bool, Parameter(name="--json", negative=())]
