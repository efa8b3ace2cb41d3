"""One row an ATen operator: a function of the translator and of the operator's arguments, that adds nodes
to the graph and returns what the operator returns.  SPDX-License-Identifier: Apache-2.0
"""
ROWS, RANDOM = {}, {"bernoulli", "native_dropout", "dropout", "rand", "randn", "rand_like", "randn_like", "randint",
                    "randperm", "normal", "uniform", "alpha_dropout", "feature_dropout"}


def row(*names):
    def keep(function):
        for name in names:
            ROWS[name] = function
        return function
    return keep


from . import choices, composed, draws, indices, losses, masks, moving, norms, pointwise  # noqa: E402,F401
from . import products, recurrent, reductions, steps, taken, waves, windows  # noqa: E402,F401
