# Modules as people write them by hand in 2026: states that are scanned, losses of two views, flows, adapters.  Each of
# MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, WORDS, ids, reals

nn = torch.nn


class Words(nn.Module):
    """Ids to logits, with blocks in between."""

    def __init__(self, width=16):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, width), nn.RMSNorm(width)
        self.head = nn.Linear(width, WORDS, bias=False)

    def forward(self, x, labels):
        x = self.words(x)
        x = x + self.mix(self.norm(x))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Retained(Words):
    """RetNet: products that decay with the distance, a norm a head, a gate."""

    def __init__(self, width=16, heads=2):
        super().__init__(width)
        self.heads, self.qkvg = heads, nn.Linear(width, 4 * width, bias=False)
        self.out, self.each = nn.Linear(width, width, bias=False), nn.GroupNorm(heads, heads)
        self.register_buffer("decay", torch.log(1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float))))

    def mix(self, x):
        n, t, c = x.shape
        q, k, v, g = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkvg(x).chunk(4, -1))
        at = torch.arange(t, device=x.device)
        apart = at[:, None] - at[None, :]
        mask = torch.exp(self.decay[:, None, None] * apart.clamp(min=0)) * (apart >= 0)
        y = (q @ k.transpose(-1, -2) * k.shape[-1] ** -0.5) * mask
        y = F.layer_norm((y / y.detach().abs().sum(-1, keepdim=True).clamp(min=1)) @ v, (c // self.heads,))
        return self.out((F.silu(g) * y).transpose(1, 2).reshape(n, t, c))


class Scanned(Words):
    """minGRU: a recurrence without a state in its gates, as a cumulative sum of logarithms."""

    def __init__(self, width=16):
        super().__init__(width)
        self.parts = nn.Linear(width, 2 * width)

    def mix(self, x):
        hidden, gate = self.parts(x).chunk(2, -1)
        keep, take = -F.softplus(gate), -F.softplus(-gate)
        hidden = torch.where(hidden >= 0, (F.relu(hidden) + 0.5).log(), -F.softplus(-hidden))
        total = F.pad(keep, (0, 0, 1, 0)).cumsum(1)[:, 1:]
        return torch.exp(total + torch.logcumsumexp(take + hidden - total, 1))


class Delta(Words):
    """DeltaNet, step by step: a matrix a head that every token corrects."""

    def __init__(self, width=16, heads=2):
        super().__init__(width)
        self.heads, self.qkv, self.rate = heads, nn.Linear(width, 3 * width), nn.Linear(width, heads)
        self.out = nn.Linear(width, width)

    def mix(self, x):
        n, t, c = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        q, k, beta = F.normalize(q, dim=-1), F.normalize(k, dim=-1), self.rate(x).sigmoid().transpose(1, 2)
        state, found = x.new_zeros(n, self.heads, c // self.heads, c // self.heads), []
        for i in range(t):
            old = torch.einsum("bhd,bhde->bhe", k[:, :, i], state)
            state = state + torch.einsum("bhd,bhe->bhde", k[:, :, i], beta[:, :, i, None] * (v[:, :, i] - old))
            found.append(torch.einsum("bhd,bhde->bhe", q[:, :, i], state))
        return self.out(torch.stack(found, 2).transpose(1, 2).reshape(n, t, c))


class Gated(Words):
    """S6 in chunks, written by hand: states of every channel, a loop over the places."""

    def __init__(self, width=16, state=4):
        super().__init__(width)
        self.inner, self.conv = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 3, groups=width, padding=2)
        self.tells, self.steps = nn.Linear(width, 2 * state), nn.Linear(width, width)
        self.a = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(width, 1))
        self.d = nn.Parameter(torch.ones(width))

    def mix(self, x):
        x, gate = self.inner(x).chunk(2, -1)
        x = F.silu(self.conv(x.mT)[..., :x.shape[1]].mT)
        b, c = self.tells(x).chunk(2, -1)
        dt = F.softplus(self.steps(x))
        decay = torch.exp(dt[..., None] * -self.a.exp())
        put, h, found = (dt * x)[..., None] * b[:, :, None], 0, []
        for i in range(x.shape[1]):
            h = decay[:, i] * h + put[:, i]
            found.append((h * c[:, i, None]).sum(-1))
        return (torch.stack(found, 1) + self.d * x) * F.silu(gate)


class Adapted(Words):
    """LoRA and DoRA: adapters beside weights that stay."""

    def __init__(self, width=16, rank=2):
        super().__init__(width)
        self.fc, self.down = nn.Linear(width, width), nn.Parameter(0.3 * torch.randn(rank, width))
        self.up, self.size = nn.Parameter(0.3 * torch.randn(width, rank)), nn.Parameter(torch.rand(width) + 0.5)

    def mix(self, x):
        weight = self.fc.weight.detach() + self.up @ self.down
        weight = self.size[:, None] * weight / weight.norm(dim=1, keepdim=True)
        return F.linear(x, weight, self.fc.bias) + F.dropout(x, 0.0) @ self.down.T @ self.up.T * 0.5


class Capped(Words):
    """Norms of queries, scores under a soft cap, a window, sinks, values that layers share (modded GPT)."""

    def __init__(self, width=16, heads=2, long=10):
        super().__init__(width)
        self.heads, self.qkv, self.sinks = heads, nn.Linear(width, 3 * width), nn.Parameter(torch.randn(heads))
        self.values, self.mixes = nn.Embedding(WORDS, width), nn.Parameter(torch.tensor([0.5, 0.5]))
        at = torch.arange(long)
        self.register_buffer("mask", (at[:, None] >= at) & (at[:, None] - at < 4), persistent=False)

    def forward(self, x, labels):
        first, x = self.values(x), self.words(x)
        x = x + self.mix(self.norm(x), first)
        x = x + self.mix(self.norm(x), first)
        return F.cross_entropy(20 * torch.sigmoid(self.head(x) / 5).flatten(0, 1), labels.flatten())

    def mix(self, x, first):
        n, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        v = self.mixes[0] * v + self.mixes[1] * first
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        q, k = F.rms_norm(q, (q.shape[-1],)), F.rms_norm(k, (k.shape[-1],))
        scores = 15 * torch.tanh(q @ k.mT * 0.12 / 15)
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        sinks = self.sinks.view(1, -1, 1, 1).expand(n, -1, t, 1)
        p = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
        return (p @ v).transpose(1, 2).reshape(n, t, c)


class Ahead(Words):
    """Several tokens ahead (MTP), z-loss."""

    def __init__(self, width=16):
        super().__init__(width)
        self.mix, self.joins = nn.Linear(width, width), nn.Linear(2 * width, width)

    def forward(self, x, labels, further):
        x = self.words(x)
        h = x + self.mix(self.norm(x))
        logits = self.head(h)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + 1e-3 * logits.logsumexp(-1).pow(2).mean()
        h = self.joins(torch.cat([self.norm(h[:, :-1]), self.norm(x[:, 1:])], -1))
        return loss + 0.3 * F.cross_entropy(self.head(h).flatten(0, 1), further[:, 1:].flatten())


class Spline(nn.Module):
    """KAN: layers of B-splines by Cox and de Boor."""

    def __init__(self, widths=(4, 6, 5), grid=5, order=3):
        super().__init__()
        self.order = order
        self.register_buffer("grid", torch.linspace(-1 - 2 * order / grid, 1 + 2 * order / grid, grid + 2 * order + 1))
        self.bases = nn.ParameterList(torch.randn(b, a) * a ** -0.5 for a, b in zip(widths, widths[1:]))
        self.splines = nn.ParameterList(0.3 * torch.randn(b, a, grid + order) for a, b in zip(widths, widths[1:]))

    def basis(self, x):
        x, g = x.unsqueeze(-1), self.grid
        b = ((x >= g[:-1]) & (x < g[1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            b = (x - g[:-(k + 1)]) / (g[k:-1] - g[:-(k + 1)]) * b[..., :-1] + \
                (g[k + 1:] - x) / (g[k + 1:] - g[1:-k]) * b[..., 1:]
        return b

    def forward(self, x, labels):
        for base, spline in zip(self.bases, self.splines):
            x = F.linear(F.silu(x), base) + F.linear(self.basis(x).flatten(1), spline.flatten(1))
        return F.cross_entropy(x, labels)


class Sines(nn.Module):
    """SIREN: sines all the way, gradients of the field are not asked for."""

    def __init__(self, width=16):
        super().__init__()
        self.fcs = nn.ModuleList(nn.Linear(a, b) for a, b in ((2, width), (width, width), (width, 3)))

    def forward(self, at, colour):
        for fc in self.fcs[:-1]:
            at = torch.sin(5 * fc(at))
        return ((self.fcs[-1](at) - colour) ** 2).mean()


class Guided(nn.Module):
    """Diffusion by hand: noise by a schedule, labels that are left out sometimes (told), v as the target, min-SNR."""

    def __init__(self, width=8, steps=50):
        super().__init__()
        beta = torch.linspace(1e-4, 0.05, steps)
        self.register_buffer("bar", torch.cumprod(1 - beta, 0))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.label, self.inner = nn.Embedding(6, width), nn.Conv2d(3, width, 3, padding=1)
        self.norm, self.outer = nn.GroupNorm(2, width, affine=False), nn.Conv2d(width, 3, 3, padding=1)
        self.shift, self.width = nn.Linear(width, 2 * width), width

    def forward(self, x, noise, steps, labels, keep):
        a = self.bar[steps].view(-1, 1, 1, 1)
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        half = torch.exp(-math.log(100) * torch.arange(self.width // 2) / (self.width // 2))
        t = steps[:, None].to(x.dtype) * half[None].to(x.dtype)
        labels = torch.where(keep, labels, 5)
        t = self.time(torch.cat([t.sin(), t.cos()], -1)) + self.label(labels)
        scale, shift = self.shift(F.silu(t))[:, :, None, None].chunk(2, 1)
        y = self.outer(F.silu(self.norm(self.inner(noisy)) * (1 + scale) + shift))
        weight = (a / (1 - a)).clamp(max=5).flatten() / (a / (1 - a)).flatten().add(1)
        each = F.mse_loss(y, a.sqrt() * noise - (1 - a).sqrt() * x, reduction="none").flatten(1).mean(1)
        return (weight * each).mean()


class Flowing(nn.Module):
    """Rectified flow with a transformer that norms by what the step says (adaLN-Zero)."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.patch, self.heads = nn.Conv2d(4, width, 2, 2), heads
        self.time, self.tells = nn.Linear(width, width), nn.Linear(width, 6 * width)
        self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(
            width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU("tanh"), nn.Linear(32, width))
        self.last = nn.Linear(width, 16)

    def forward(self, x, noise, t):
        at = t.view(-1, 1, 1, 1)
        y = self.patch((1 - at) * x + at * noise).flatten(2).transpose(1, 2)
        n, long, c = y.shape
        angles = 1000 * t[:, None] * torch.exp(-torch.arange(c // 2) * (math.log(1e4) / (c // 2)))
        s = F.silu(self.time(torch.cat([angles.cos(), angles.sin()], -1)))
        a, b, g, d, e, f = self.tells(s)[:, None].chunk(6, -1)
        q, k, v = self.qkv(self.norm(y) * (1 + a) + b).view(n, long, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = y + g * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        y = self.last(y + f * self.mlp(self.norm(y) * (1 + d) + e))
        y = y.view(n, 4, 4, 2, 2, 4).permute(0, 5, 1, 3, 2, 4).reshape(n, 4, 8, 8)
        return F.mse_loss(y, noise - x)


class Twins(nn.Module):
    """BYOL: one view tells what a second network, which stays, makes of the other."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                                 nn.Flatten())
        self.tells = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.other = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.other.requires_grad_(False)

    def forward(self, a, b):
        with torch.no_grad():
            aim = self.other(b)
        return (2 - 2 * F.cosine_similarity(self.tells(self.net(a)), aim, dim=-1)).mean()


class Views(nn.Module):
    """DINO: a student's shares of one view against a teacher's of the other, centred."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = (nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 12)) for _ in "12")
        self.teacher.requires_grad_(False)
        self.register_buffer("centre", torch.randn(1, 12))

    def forward(self, a, b):
        with torch.no_grad():
            aims = [((self.teacher(x) - self.centre) / 0.04).softmax(-1) for x in (a, b)]
        found = [F.log_softmax(self.student(x) / 0.1, -1) for x in (a, b)]
        total = sum(torch.sum(-p * q, dim=-1).mean() for i, p in enumerate(aims) for k, q in enumerate(found) if i != k)
        return total / 2


class Contrast(nn.Module):
    """SimCLR: every view beside all others of the batch."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, a, b):
        z = F.normalize(self.net(torch.cat([a, b])), dim=-1)
        logits = z @ z.T / 0.5
        logits = logits.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
        return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)))


class Hardest(nn.Module):
    """Triplets in a batch: of each sample the furthest that is alike, the nearest that is not."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x, labels):
        z = self.net(x)
        length, same = z.pow(2).sum(1), labels[:, None] == labels
        apart = (length[:, None] + length - 2 * z @ z.T).clamp(min=1e-12).sqrt()
        return F.relu(apart.masked_fill(~same, 0).amax(1) - apart.masked_fill(same, 99).amin(1) + 0.2).mean()


class Towers(nn.Module):
    """Two networks, and every sample of the one beside all of the other."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 6), nn.Linear(10, 6)
        self.scale, self.shift = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor([-3.0]))

    def forward(self, x, y):
        return self.loss(F.normalize(self.a(x), dim=-1), F.normalize(self.b(y), dim=-1))


class Nearest(Towers):
    """InfoNCE."""

    def loss(self, x, y):
        return F.cross_entropy(x @ y.T / 0.1, torch.arange(len(x)), label_smoothing=0.1)


class Both(Towers):
    """CLIP's, both ways."""

    def loss(self, x, y):
        logits, at = self.scale.exp() * x @ y.t() + self.shift, torch.arange(len(x))
        return (F.cross_entropy(logits, at) + F.cross_entropy(logits.t(), at)) / 2


class Signs(Towers):
    """SigLIP's."""

    def loss(self, x, y):
        logits = x @ y.t() * self.scale.exp() + self.shift
        return -F.logsigmoid((2 * torch.eye(len(x), dtype=x.dtype) - 1) * logits).sum() / len(x)


class Alike(nn.Module):
    """Contrast with all that have the same label (Khosla et al.), but not with itself."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(10, 8)

    def forward(self, x, labels):
        z = F.normalize(self.net(x), dim=-1)
        other = ~torch.eye(len(x), dtype=torch.bool)
        logits = (z @ z.mT / 0.2).masked_fill(~other, float("-inf"))
        same = (labels.view(-1, 1) == labels.view(1, -1)).to(x.dtype) * other
        shares = torch.log_softmax(logits, 1).masked_fill(~other, 0.0)
        return -((same * shares).sum(1) / same.sum(1).clamp(min=1)).mean()


class Halves(nn.Module):
    """A U-Net under autocast, its loss in float32."""

    def __init__(self, width=8):
        super().__init__()
        self.down, self.low, self.up, self.out = nn.Conv2d(3, width, 3, 2, 1), nn.Conv2d(width, width, 3, padding=1), \
            nn.ConvTranspose2d(width, width, 2, 2), nn.Conv2d(width + 3, 4, 1)

    def forward(self, x, labels):
        with torch.autocast("cpu", torch.bfloat16):
            y = F.relu(self.down(x))
            y = self.up(y + F.relu(self.low(y)))
            y = self.out(torch.cat([y, x], 1))
        return F.cross_entropy(y.float(), labels)


class Pixels(nn.Module):
    """PixelCNN: filters of which a mask takes a half away; logistic shares of what is between two numbers."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, width, 5, padding=2), nn.Conv2d(width, 2, 3, padding=1)
        for conv, own in ((self.first, 0), (self.second, 1)):
            mask = torch.ones_like(conv.weight)
            k = mask.shape[-1] // 2
            mask[:, :, k, k + own:], mask[:, :, k + 1:] = 0, 0
            conv.register_buffer("mask", mask)

    def forward(self, x):
        h = F.elu(F.conv2d(x, self.first.weight * self.first.mask, self.first.bias, padding=2))
        mean, spread = F.conv2d(h, self.second.weight * self.second.mask, self.second.bias, padding=1).chunk(2, 1)
        inv = torch.exp(-spread.clamp(min=-5))
        up, low = torch.sigmoid(inv * (x - mean + 1 / 255)), torch.sigmoid(inv * (x - mean - 1 / 255))
        return -torch.log((up - low).clamp(min=1e-7)).flatten(1).sum(1).mean()


def lm(make):
    return lambda: (make(), (ids(10), ids(10)), {})


MODELS = {
    "RetNet": lm(Retained), "minGRU": lm(Scanned), "DeltaNet": lm(Delta), "S6, a loop": lm(Gated),
    "LoRA, DoRA": lm(Adapted),
    "GPT, capped": lm(Capped), "tokens ahead": lambda: (Ahead(), (ids(10), ids(10), ids(10)), {}),
    "KAN": lambda: (Spline(), (reals(4), ids(below=5)), {}),
    "SIREN": lambda: (Sines(), (reals(2), reals(3)), {}),
    "diffusion, v": lambda: (Guided(), (reals(3, 8, 8), reals(3, 8, 8), ids(below=50), ids(below=5),
                                        torch.rand(BATCH) < 0.8),
                             {"below": {"labels": 5}}),
    "rectified flow": lambda: (Flowing(), (reals(4, 8, 8), reals(4, 8, 8), torch.rand(BATCH)), {}),
    "BYOL": lambda: (Twins(), (reals(3, 9, 9), reals(3, 9, 9)), {}),
    "DINO": lambda: (Views(), (reals(10), reals(10)), {}),
    "U-Net, autocast": lambda: (Halves(), (reals(3, 8, 8), ids(8, 8, below=4)), {}),
    "PixelCNN": lambda: (Pixels(), (torch.rand(BATCH, 1, 8, 8),), {})}
class Ended(Words):
    """CLIP's text: what is where the largest id is, the text's end."""

    def __init__(self, width=16):
        super().__init__(width)
        self.mix = nn.Linear(width, width)

    def forward(self, x, y):
        z = self.mix(self.words(x)).tanh()
        return F.mse_loss(z[torch.arange(len(z)), x.to(torch.int).argmax(-1)], y)


BATCHES = {
    "InfoNCE": lambda: (Nearest(), (reals(12), reals(10)), {}),
    "CLIP's loss": lambda: (Both(), (reals(12), reals(10)), {}),
    "SigLIP's loss": lambda: (Signs(), (reals(12), reals(10)), {}),
    "contrast by labels": lambda: (Alike(), (reals(10), ids(below=3)), {"below": {"labels": 3}}),
    "triplets of a batch": lambda: (Hardest(), (reals(10), ids(below=3)), {"below": {"labels": 3}})}
MODELS.update(BATCHES)
MODELS["the text's end"] = lambda: (Ended(), (ids(10), reals(16)), {})
REFUSED = {"SimCLR": lambda: (Contrast(), (reals(10), reals(10)), {})}
