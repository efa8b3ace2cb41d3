#!/usr/bin/env python3
"""Networks as people write them in PyTorch: torchvision's families, for small images, and three plain
modules.

usage: bench/torch_networks.py NAME MODEL.onnx    exports one for training, for ffimport

Needs PyTorch and torchvision (/usr/bin/python3 on Debian with python3-torch, python3-torchvision).
SPDX-License-Identifier: Apache-2.0
"""
import sys
import warnings

import torch
import torchvision.models as zoo
from torch import nn
from torch.nn import functional as F
from torchvision.ops import StochasticDepth

CLASSES, BATCH = 7, 8


def vision(name, image=64, **options):
    """Of torchvision, for small images; nothing is drawn."""
    def make():
        model = getattr(zoo, name)(num_classes=CLASSES, **options)
        for m in model.modules():
            if isinstance(m, (nn.Dropout, StochasticDepth)):
                m.p = 0.0
            if isinstance(m, nn.AdaptiveAvgPool2d) and m.output_size == (7, 7):
                m.output_size = (1, 1)
        if name.startswith(("alexnet", "vgg")):  # as large as what averaging to 1 by 1 leaves
            first = next(i for i, m in enumerate(model.classifier) if isinstance(m, nn.Linear))
            model.avgpool = nn.AdaptiveAvgPool2d(1)
            model.classifier[first] = nn.Linear(256 if name == "alexnet" else 512, 4096)
        if name == "vit_b_16":
            nn.init.normal_(model.heads.head.weight, 0, 0.02)
        return model, torch.randn(BATCH, 3, image, image)
    return name, make


class Decoder(nn.Module):
    """A stack of GPT's blocks; of its last place the next word."""

    def __init__(self, words=67, width=32, places=12, heads=4, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width),
            "mix": nn.Linear(width, width), "behind": nn.LayerNorm(width),
            "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
            for _ in range(layers))
        self.norm, self.out, self.heads = nn.LayerNorm(width), nn.Linear(width, words, False), heads
        self.register_buffer("mask", torch.ones(places, places).tril().view(1, 1, places, places))

    def forward(self, ids):
        n, t = ids.shape
        x = self.words(ids) + self.places(torch.arange(t))
        for b in self.blocks:
            q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2)
                       for y in b["qkv"](b["before"](x)).chunk(3, 2))
            a = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
            x = x + b["mix"]((a @ v).transpose(1, 2).reshape(n, t, -1))
            x = x + b["down"](F.gelu(b["up"](b["behind"](x))))
        return self.out(self.norm(x))[:, -1]


class Words(nn.Module):
    """A language model of LSTM cells; of its last step the next word."""

    def __init__(self, words=67, width=32):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width), nn.Linear(width, words)
        self.cells = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, ids):
        return self.out(self.cells(self.embed(ids))[0])[:, -1]


class UNet(nn.Module):
    """Down and up again, with what was there beside it; a class for the image."""

    def __init__(self, width=8):
        super().__init__()
        def two(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.down = nn.ModuleList([two(3, width), two(width, 2 * width)])
        self.bottom = two(2 * width, 4 * width)
        self.grow = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
                                   nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.up = nn.ModuleList([two(4 * width, 2 * width), two(2 * width, width)])
        self.out = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        kept = []
        for m in self.down:
            kept.append(m(x))
            x = F.max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for grow, m in zip(self.grow, self.up):
            x = m(torch.cat([kept.pop(), grow(x)], 1))
        return self.out(x).mean((2, 3))


NETWORKS = dict([
    vision("alexnet"), vision("vgg11", 32), vision("resnet18"), vision("resnext50_32x4d"),
    vision("wide_resnet50_2"), vision("densenet121"), vision("squeezenet1_1"),
    vision("inception_v3", 96, aux_logits=False, init_weights=False),
    vision("googlenet", aux_logits=False, init_weights=False), vision("shufflenet_v2_x1_0"),
    vision("mobilenet_v2"), vision("mobilenet_v3_small"), vision("mnasnet1_0"),
    vision("efficientnet_b0"), vision("regnet_y_400mf"),
    vision("convnext_tiny"), vision("vit_b_16", image_size=64),
    vision("swin_t"),
    ("GPT blocks", lambda: (Decoder(), torch.randint(67, (BATCH, 12)))),
    ("wide GPT blocks", lambda: (Decoder(1000, 128, 64), torch.randint(1000, (BATCH, 64)))),
    ("LSTM language model", lambda: (Words(), torch.randint(67, (BATCH, 8)))),
    ("U-Net", lambda: (UNet(), torch.randn(BATCH, 3, 32, 32)))])


def export(module, inputs, path, opset):
    """In training mode, constants as they are."""
    torch.onnx.export(module, inputs, path, opset_version=opset,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in NETWORKS:
        sys.exit("usage: torch_networks.py NAME MODEL.onnx, where NAME is one of " + ", ".join(NETWORKS))
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    module, inputs = NETWORKS[sys.argv[1]]()
    export(module, inputs, sys.argv[2], 13)


if __name__ == "__main__":
    main()
