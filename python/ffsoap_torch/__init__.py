"""PyTorch modules as graphs for ffsoap, and plans back into PyTorch.  Needs PyTorch 2.11 or newer.

python3 -m ffsoap_torch export MODULE:FACTORY -o GRAPH --weights FILE --map FILE
python3 -m ffsoap_torch check MODULE:FACTORY PLAN --map FILE
with ffsoap_torch.without_weights(): module = ...
ffsoap_torch.apply(module, PLAN, *inputs, map=FILE)

SPDX-License-Identifier: Apache-2.0
"""


class Refused(Exception):
    """What cannot be expressed: one sentence that names the module and the line."""


def apply(*args, **options):
    """plans/apply.py"""
    from .plans.apply import apply as made
    return made(*args, **options)


def without_weights():
    """A context in which modules are made without memory for their parameters, to be exported."""
    from .trace import without_weights as made
    return made()
