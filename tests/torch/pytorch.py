# PyTorch and NumPy; without them tests say SKIP and end.
# SPDX-License-Identifier: Apache-2.0
import sys

try:
    import numpy as np  # noqa: F401
    import torch
    import torch.nn.functional as F  # noqa: F401
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

torch.set_num_threads(1)
