#!/usr/bin/env python3
"""Models of language, attention, pictures, diffusion, sound, molecules and agents that the other benches do not have, as
people write them, exported by ffsoap_torch: loss and gradients of one training step of ffrun beside PyTorch's own.

usage: bench/torch_wide.py FFRUN [NAME...]    prints a table in Markdown

Needs PyTorch 2.11 or newer, torchvision, transformers and diffusers.  SPDX-License-Identifier: Apache-2.0
"""
import torch_more as more  # finds tests/torch
import wide_modules
import wide_pictures

MODELS = {**wide_modules.MODELS, **wide_pictures.MODELS, **wide_modules.REFUSED, **wide_pictures.REFUSED}


if __name__ == "__main__":
    more.main(MODELS)
