# Functions of an operator's output that no model of the tests has: of a tensor [samples, 12], of as many or fewer.
# SPDX-License-Identifier: Apache-2.0
from pytorch import F, torch  # says SKIP and ends without PyTorch


def rolled(x):
    y = x.view(len(x), 3, 4)
    y = torch.roll(y, (1, -1), (1, 2)).flip(1)
    y[:, 1] = y[:, 0] * 2
    return torch.cat([y[:, :2], y[:, 2:]], 1).flatten(1)


def unlearned(x):
    with torch.no_grad():
        return x.exp().sum(-1, keepdim=True)


def kinks(zero, x):
    """Of zeros that have a gradient, as behind a layer that begins with zeros."""
    return (F.softplus(zero) + torch.logaddexp(zero, 2 * zero)) * x + F.logsigmoid(zero) + F.mish(zero) + torch.maximum(
        zero, torch.zeros_like(zero)) * x - torch.minimum(torch.tensor(0.0).to(x.dtype), zero) + F.elu(zero)


def pairs_turned(x):
    """As rotary places are written."""
    y = torch.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * 0.6 - x[..., 1::2] * 0.8
    y[..., 1::2] = x[..., 0::2] * 0.8 + x[..., 1::2] * 0.6
    return y


FUNCTIONS = {
    "conditions": lambda x: F.hardshrink(x) + torch.where(x > 0, x.clamp(min=1e-6).log(), -x) + (x >= 0.1) * (x != 0),
    "a condition that saves": lambda x: torch.where(x > 0.01, x.log(), 2 * x),
    "places of the largest": lambda x: F.one_hot(x.max(1)[1], 12) * x + (x.argmin(1, keepdim=True) == torch.arange(12)),
    "of the largest": lambda x: x.topk(3, largest=False)[0].sum(1, keepdim=True) * x + x.gather(1, x.topk(2)[1][:, 1:]),
    "added where they are large": lambda x: x.scatter_add(1, x.topk(2)[1], torch.ones(6, 2, dtype=x.dtype)).scatter(
        1, x.argmax(1, keepdim=True), 0.5),
    "gradients that stop": lambda x: x * (x + 1).detach() + x / unlearned(x),
    "integers of what is computed": lambda x: x * (4 * x).long() + (torch.arange(9.0) ** 2)[
        (2 * x.abs()).int().clamp(max=8)],
    "bins": lambda x: x * torch.bucketize(x, torch.tensor([-1.0, 0, 1]).to(x.dtype)) + F.one_hot(
        torch.searchsorted(torch.tensor([-1.0, 0, 1]).to(x.dtype), x[:, 0], right=True), 4).repeat(1, 3),
    "elu, softplus": lambda x: F.elu(x) + F.softplus(x, 2.0),
    "where functions have a kink": lambda x: kinks(x - x.detach(), x),
    "rarer functions": lambda x: torch.hypot(x, x + 3) + (x / 2).cosh() - (x / 2).sinh() + torch.exp2(x) + x.norm(
        3, 1, True) + torch.nan_to_num((x.abs() + 1).log2() * (x.abs() + 2).log10()) + torch.logcumsumexp(x, 1),
    "exponents that are computed": lambda x: (x.abs() + 0.1) ** (x + torch.arange(12)).sin() + torch.cdist(
        x.view(-1, 4, 3), x.view(-1, 4, 3) + 1).sum(2).repeat(1, 3),
    "a state that begins with zeros": lambda x: torch.einsum("bi,bij->bj", x, x.new_zeros(
        len(x), 12, 12) + torch.einsum("bi,bj->bij", x, x)),
    "every second element": lambda x: pairs_turned(x.view(-1, 2, 6)).flatten(1),
    "prelu's sum": lambda x: F.hardsigmoid(x) * F.leaky_relu(x, 0.2) + F.relu6(x),
    "norms by hand": lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
    "normalize": lambda x: F.normalize(x.view(-1, 3, 4), dim=-1).reshape(-1, 12),
    "logsumexp": lambda x: x - torch.logsumexp(x, -1, keepdim=True),
    "in place": lambda x: x.add_(1).mul_(0.5).clamp_(min=-0.2),
    "moved, written into": rolled,
    "where": lambda x: torch.where(torch.arange(12) % 3 == 0, x, x * x),
    "masked": lambda x: x.masked_fill(torch.arange(12) > 8, float("-inf")).softmax(-1),
    "outer": lambda x: (x[:, :, None] * x[:, None]).mean(2),
    "products": lambda x: (x.view(-1, 3, 4) @ x.view(-1, 3, 4).mT).flatten(1) @ torch.eye(9, 12, dtype=x.dtype),
    "interleaved": lambda x: torch.stack([x[:, ::2], x[:, 1::2]], 2).flatten(1),
    "extremes": lambda x: torch.maximum(x, x.amax(1, keepdim=True) - 1).clamp(max=0.9),
    "a constant that is wider": lambda x: (x[:, None, :] * torch.full((3, 1), 0.5)).sum(1),
    "what PyTorch composes": lambda x: F.selu(x) * F.cosine_similarity(x, x + 1, dim=-1).unsqueeze(1) + F.glu(
        torch.cat([x, x], 1)) - F.logsigmoid(x) + F.celu(x, 0.7) * torch.log1p(x.abs()) + torch.expm1(x / 4),
    "the other end": lambda x: F.pad(x.view(-1, 3, 4), (1, 2), mode="circular")[..., 2:6].flatten(1) +
    F.pad(x[:, None], (2, -2))[:, 0],
    "diagonals, windows": lambda x: torch.cat([x.view(-1, 3, 4).diagonal(1, 1, 2), x.unfold(1, 4, 3).sum(2),
                                               torch.tril(x.view(-1, 3, 4)).flatten(1)[:, :6]], 1),
    "added at places": lambda x: torch.zeros_like(x).index_add(1, torch.arange(12) // 2 * 2, x * 2) + x.scatter_add(
        1, (torch.arange(12) * 5 % 7).expand(len(x), -1), x),
    "sums of products": lambda x: torch.einsum("nij,nj,nk->nik", x.view(-1, 3, 4), x[:, :4], x[:, 4:8]).flatten(
        1) + torch.einsum("nij->nji", x.view(-1, 4, 3)).flatten(1),
    "a part that nobody reads": lambda x: x.chunk(3, 1)[1].repeat(1, 3) + torch.cat(x.chunk(4, 1)[1:] + x.chunk(
        4, 1)[1:2], 1),
    "sines": lambda x: torch.sin(x * 3) * torch.cos(x),
    "deviations, other norms": lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1) + x / (
        x.norm(p=1, dim=1, keepdim=True) + x.norm(p=float("inf"), dim=1, keepdim=True)) + 2 ** x,
    "sums of products with dots": lambda x: torch.einsum("...ij,...kj->...ik", x.view(-1, 2, 3, 2), x.view(
        -1, 2, 3, 2)).flatten(1)[:, :12],
    "filters that are numbers": lambda x: F.conv1d(x[:, None], x.new_tensor([[[0.25, 0.5, 0.25]]]), padding=1)[
        :, 0] + F.linear(x, torch.eye(12, dtype=x.dtype) * 2),
    "whole numbers": lambda x: x * (x.floor() + 2 * x.ceil() - x.round(decimals=1)) + torch.trunc(3 * x) * x.frac() +
    torch.fmod(x, 0.7) - x % 0.4 + x.detach() // 0.3 + torch.div(x, 0.2,
            rounding_mode="trunc") + (x.round() - x).detach() * x,
    "angles": lambda x: x.tanh().asin() * x.sigmoid().acos() + x.atan() + torch.atan2(x, x.flip(1) + 3) + torch.atan2(
        x, x.new_tensor(0.5)) + torch.angle(torch.complex(x, x + 2)) + torch.angle(x) * x + torch.tan(x / 2),
    "the gamma function": lambda x: torch.lgamma(x.exp()) + torch.digamma(x.exp() + 0.1) + torch.special.gammaln(
        x - 9.5) / 9,
    "inverse hyperbolic": lambda x: torch.asinh(3 * x) + torch.acosh(x.exp() + 1) + torch.atanh(x.tanh() / 2),
    "bounds that are computed": lambda x: torch.clamp(x, -x.detach().abs() / 2, x.roll(1, 1)) + torch.erfc(x),
    "an odd permutation": lambda x: x.view(-1, 2, 3, 2).permute(0, 3, 1, 2).reshape(-1, 12),
}
