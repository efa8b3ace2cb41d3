"""Functions of PyTorch that look at what they are given, which has no graph, by operators that have rows.
SPDX-License-Identifier: Apache-2.0
"""
import math

import torch
from torch.nn import functional as F

from . import Refused
from .operands import LEAST


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """As torch.nn.functional.ctc_loss: forward probabilities of blank, label, blank, ... by logarithms, step by step
    (Graves et al. 2006, equations 6 to 8)."""
    if log_probs.dim() != 3 or targets.dim() != 2:
        raise Refused("CTC is exported of steps by samples by classes, and of labels [samples, labels], of which "
                      "target_lengths says how many count")
    steps, n, classes = log_probs.shape
    places = 2 * targets.shape[1] + 1
    targets, lengths, ends = (torch.as_tensor(x) for x in (targets, input_lengths, target_lengths))
    ones = F.one_hot(targets, blank if blank == classes - 1 else classes).to(log_probs.dtype)
    at = by_place(log_probs.transpose(0, 1), ones, blank)
    skips = F.pad(1 - (ones[:, 1:] * ones[:, :-1]).sum(-1), (1, 0))
    skips = F.pad(hidden(torch.stack([torch.zeros_like(skips), skips], 2).flatten(1)), (0, 1), value=LEAST)
    alpha = at[:, 0] + hidden((torch.arange(places) < 2).to(at.dtype))
    found = [alpha]
    for i in range(1, steps):
        before = F.pad(alpha, (2, 0), value=LEAST)
        skipped = before[:, :places] + skips
        alpha = at[:, i] + torch.logsumexp(torch.stack([alpha, before[:, 1:-1], skipped], 2), 2)
        found.append(alpha)
    here = F.one_hot(lengths - 1, steps).to(at.dtype)
    alpha = (torch.stack(found, 1) * here.unsqueeze(-1)).sum(1)
    apart = 2 * ends.unsqueeze(-1) - torch.arange(places)
    last = torch.logsumexp(alpha + hidden(((apart == 0) | (apart == 1)).to(at.dtype)), 1)
    loss = -last
    if zero_infinity:
        loss = torch.where(last > LEAST / 10, loss, 0.0)
    if reduction == "mean":
        return (loss / ends.to(loss.dtype).clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):  # noqa: A002
    """As torch.nn.functional's, which asks whether a variance is below zero."""
    var = var if isinstance(var, torch.Tensor) else var * torch.ones_like(input)
    if var.dim() < input.dim() and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var + (var.clamp(min=eps) - var).detach()
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def hidden(ones):
    """Nothing where there are ones, else what leaves nothing of a logarithm."""
    return (1 - ones) * LEAST


def by_place(log_probs, ones, blank):
    """Of [samples, steps, classes] what each step says of blank, label, blank, ..."""
    labels = log_probs[..., :ones.shape[2]] @ ones.transpose(1, 2)
    blanks = log_probs[..., blank, None]
    both = torch.stack([blanks.expand_as(labels), labels], 3).flatten(2)
    return torch.cat([both, blanks], 2)
