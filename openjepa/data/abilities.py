"""What a source can also do. The protocols of core/contracts.py match names only, and somebody's own source may use a name
for something else, such as `path` for its root folder or `images` for a list of file names. Such a source lacks the ability.
"""

from collections.abc import Mapping
from typing import TypeGuard

import torch
from torch import Tensor

from openjepa.core.contracts import HasFiles, HasIdentity, InMemory, NamesClasses, RendersBatches, Source


def has_files(source: Source) -> TypeGuard[HasFiles]:
    return isinstance(source, HasFiles) and callable(source.path)


def is_in_memory(source: Source) -> TypeGuard[InMemory]:
    if not isinstance(source, InMemory):
        return False
    images = source.images
    return isinstance(images, Tensor) and images.dtype == torch.uint8 and images.ndim == 4 and images.shape[1] == 3


def renders_batches(source: Source) -> TypeGuard[RendersBatches]:
    return isinstance(source, RendersBatches) and callable(source.render)


def has_identity(source: Source) -> TypeGuard[HasIdentity]:
    return isinstance(source, HasIdentity) and callable(source.identity)


def names_classes(source: Source) -> TypeGuard[NamesClasses]:
    return isinstance(source, NamesClasses) and isinstance(source.class_names, Mapping)
