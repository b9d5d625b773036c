"""Networks inside torch.compile, DataParallel and DistributedDataParallel, and wrappers of somebody else.

From Python 3.12 on, isinstance with a protocol does not see what a wrapper passes on with `__getattr__`.
"""

from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

COMPILED = "_orig_mod"  # torch.compile's name for the network


def unwrapped(network: nn.Module) -> nn.Module:
    """The network inside torch's own wrappers; the network itself if there are none.

    >>> from torch import nn
    >>> from openjepa.nn.wrappers import unwrapped
    >>> unwrapped(nn.DataParallel(nn.Linear(2, 3)))
    Linear(in_features=2, out_features=3, bias=True)
    """
    if isinstance(network, nn.DataParallel | DistributedDataParallel):
        return unwrapped(network.module)
    compiled = dict(network.named_children()).get(COMPILED)
    return network if compiled is None else unwrapped(compiled)


def attribute(network: nn.Module, name: str) -> Any:
    """A plain attribute of somebody's network, such as image_size; None if there is none."""
    return getattr(unwrapped(network), name, None)  # not a protocol: it must see wrappers that use `__getattr__`
