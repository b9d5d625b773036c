"""A griffe extension for the documentation site: `>>>` examples in docstrings become code blocks.

Markdown would read `>>>` as a quotation inside a quotation.
"""

import re

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)  # up to the next empty line


class DoctestFences(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
