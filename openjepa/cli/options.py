"""Options that several verbs share."""

from typing import Annotated

from cyclopts import Parameter, validators

Overrides = Annotated[list[str] | None, Parameter(name="--set", negative=(), consume_multiple=False)]
Words = Annotated[list[str] | None, Parameter(negative=(), consume_multiple=False)]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
AsJson = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON instead of a table.")]
# The files of --import, for verbs whose config must name them; main.py imports the files and passes the paths on.
Imports = Annotated[tuple[str, ...], Parameter(parse=False, help="The files of --import.")]
