# Models that the other lists lack, as people write them: language, attention, molecules, series.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- language ----

class Speedy(nn.Module):
    """A GPT of speed runs: normed queries and keys, values of the first layer, squared relu, skips, capped logits."""

    def __init__(self, words=40, width=16, heads=2, layers=4):
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(words, width)
        self.values = nn.ModuleList(nn.Embedding(words, width) for _ in range(2))
        self.qkv = nn.ParameterList(nn.Parameter(torch.randn(3, width, width) / width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(layers))
        self.mix = nn.Parameter(torch.tensor([[1.0, 0.1]] * layers))
        self.share = nn.Parameter(torch.tensor([[0.5, 0.5]] * layers))
        self.skips = nn.Parameter(torch.ones(layers // 2))
        self.head = nn.Linear(width, words, bias=False)
        places = torch.arange(64).float()[:, None] * (1 / 1024) ** torch.linspace(0, 1, width // heads // 2)
        self.register_buffer("cos", places.cos(), persistent=False)
        self.register_buffer("sin", places.sin(), persistent=False)

    def turned(self, x):
        cos, sin = self.cos[None, :x.size(1), None], self.sin[None, :x.size(1), None]
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos + b * sin, b * cos - a * sin), -1)

    def attend(self, i, x, value):
        n, t, c = x.shape
        q, k, v = F.linear(x, self.qkv[i].flatten(0, 1)).view(n, t, 3 * self.heads, -1).chunk(3, dim=-2)
        q, k = (self.turned(F.rms_norm(y, (y.size(-1),))) for y in (q, k))
        v = self.share[i, 0] * v if value is None else self.share[i, 0] * v + self.share[i, 1] * value.view_as(v)
        y = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), is_causal=True, scale=0.12)
        return self.out[i](y.transpose(1, 2).contiguous().view(n, t, c))

    def forward(self, ids, targets):
        x = x0 = F.rms_norm(self.words(ids), (self.words.embedding_dim,))
        values = [e(ids) for e in self.values]
        values = [*values, *[None] * (len(self.out) - 2 * len(values)), *values]
        kept = []
        for i in range(len(self.out)):
            if i >= len(self.out) // 2:
                x = x + self.skips[i - len(self.out) // 2] * kept.pop()
            x = self.mix[i, 0] * x + self.mix[i, 1] * x0
            x = x + self.attend(i, F.rms_norm(x, (x.size(-1),)), values[i])
            x = x + self.down[i](F.relu(self.up[i](F.rms_norm(x, (x.size(-1),)))).square())
            if i < len(self.out) // 2:
                kept.append(x)
        logits = self.head(F.rms_norm(x, (x.size(-1),))).float()
        logits = 30 * torch.sigmoid(logits / 7.5)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


class OnASphere(nn.Module):
    """nGPT: weights and states of length one, steps that are learned."""

    def __init__(self, words=40, width=16, heads=2):
        super().__init__()
        self.heads, self.words, self.head = heads, nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 8 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.step_a, self.step_m = (nn.Parameter(torch.full((width,), 0.25)) for _ in range(2))
        self.scale_q = nn.Parameter(torch.full((heads, 1, width // heads), 0.25))
        self.scale_z = nn.Parameter(torch.full((words,), 0.25))

    def forward(self, ids, targets):
        norm = lambda x: F.normalize(x, p=2, dim=-1)  # noqa: E731
        linear = lambda x, layer: F.linear(x, norm(layer.weight))  # noqa: E731
        h = F.embedding(ids, norm(self.words.weight))
        n, t, c = h.shape
        q, k, v = linear(h, self.qkv).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = (norm(x) * self.scale_q for x in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=(c / self.heads) ** 0.5)
        h = norm(torch.lerp(h, norm(linear(y.transpose(1, 2).reshape(n, t, c), self.out)), self.step_a.abs()))
        gate, up = linear(h, self.up).chunk(2, -1)
        h = norm(h + self.step_m.abs() * (norm(F.linear(F.silu(gate) * up, F.normalize(self.down.weight, dim=0))) - h))
        return F.cross_entropy((linear(h, self.head) * self.scale_z).flatten(0, 1), targets.flatten())


class Difference(nn.Module):
    """The differential transformer: one map of attention less another."""

    def __init__(self, words=40, width=16, heads=2):
        super().__init__()
        self.heads, self.d, self.words = heads, width // heads // 2, nn.Embedding(words, width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.a = nn.ParameterList(nn.Parameter(torch.randn(self.d) * 0.1) for _ in range(4))
        self.norm, self.head = nn.RMSNorm(2 * self.d, eps=1e-5, elementwise_affine=False), nn.Linear(width, words)
        self.start = 0.8 - 0.6 * math.exp(-0.3)

    def forward(self, ids, targets):
        x = self.words(ids)
        n, t, _ = x.shape
        q, k = (f(x).view(n, t, 2 * self.heads, self.d).transpose(1, 2) for f in (self.q, self.k))
        v = self.v(x).view(n, t, self.heads, 2 * self.d).transpose(1, 2)
        w = torch.matmul(q * self.d ** -0.5, k.transpose(-1, -2))
        w = torch.nan_to_num(w) + torch.triu(torch.zeros(t, t).float().fill_(float("-inf")).type_as(w), 1)
        w = F.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        one, two = (torch.exp(torch.sum(a * b, dim=-1).float()).type_as(q) for a, b in (self.a[:2], self.a[2:]))
        w = w.view(n, self.heads, 2, t, t)
        w = w[:, :, 0] - (one - two + self.start) * w[:, :, 1]
        y = self.norm(torch.matmul(w, v)) * (1 - self.start)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, -1))
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


class Chunks(nn.Module):
    """Mamba-2's scan, in chunks, as its paper lists it."""

    def __init__(self, words=40, width=16, heads=4, state=4, chunk=4):
        super().__init__()
        self.heads, self.state, self.chunk, self.words = heads, state, chunk, nn.Embedding(words, width)
        self.into = nn.Linear(width, 2 * width + 2 * state + heads, bias=False)
        self.conv = nn.Conv1d(width + 2 * state, width + 2 * state, 4, padding=3, groups=width + 2 * state)
        self.a_log, self.d = nn.Parameter(torch.log(torch.arange(1.0, heads + 1))), nn.Parameter(torch.ones(heads))
        self.dt, self.norm, self.out = nn.Parameter(torch.rand(heads)), nn.RMSNorm(width), nn.Linear(width, words)

    def sums(self, x):
        t = x.size(-1)
        x = x.unsqueeze(-1).expand(*x.shape, t)
        x = x.masked_fill(~torch.tril(torch.ones(t, t, dtype=torch.bool), diagonal=-1), 0)
        return torch.cumsum(x, dim=-2).masked_fill(~torch.tril(torch.ones(t, t, dtype=torch.bool)), -torch.inf)

    def scan(self, x, a, b, c):
        n, t = x.shape[:2]
        x, a, b, c = (y.reshape(n, t // self.chunk, self.chunk, *y.shape[2:]) for y in (x, a, b, c))
        a = a.permute(0, 3, 1, 2)
        total = torch.cumsum(a, dim=-1)
        decay = torch.exp(self.sums(a))
        inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, decay, x)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", b, torch.exp(total[:, :, :, -1:] - total), x)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], dim=1)
        between = torch.exp(self.sums(F.pad(total[:, :, :, -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        outside = torch.einsum("bcln,bchpn,bhcl->bclhp", c, states, torch.exp(total))
        return (inside + outside).reshape(n, t, self.heads, -1)

    def forward(self, ids, targets):
        x = self.words(ids)
        n, t, w = x.shape
        z, xbc, dt = torch.split(self.into(x), [w, w + 2 * self.state, self.heads], dim=-1)
        dt = F.softplus(dt + self.dt)
        xbc = F.silu(self.conv(xbc.transpose(1, 2))[..., :t].transpose(1, 2))
        y, b, c = torch.split(xbc, [w, self.state, self.state], dim=-1)
        y = y.view(n, t, self.heads, -1)
        out = self.scan(y * dt.unsqueeze(-1), -torch.exp(self.a_log) * dt, b, c) + y * self.d.unsqueeze(-1)
        x = x + self.norm(out.reshape(n, t, w) * F.silu(z))
        return F.cross_entropy(self.out(x).flatten(0, 1), targets.flatten())


class Decayed(nn.Module):
    """RWKV-6: shifts that depend on the data, a state for each head, a loop."""

    def __init__(self, words=40, width=16, heads=2):
        super().__init__()
        self.heads, self.words, self.shift = heads, nn.Embedding(words, width), nn.ZeroPad2d((0, 0, 1, -1))
        self.maa = nn.Parameter(torch.rand(5, 1, 1, width))
        self.w1, self.w2 = nn.Parameter(torch.randn(width, 20) * 0.1), nn.Parameter(torch.randn(5, 4, width) * 0.1)
        self.decay, self.bonus = nn.Parameter(torch.rand(width) - 5), nn.Parameter(torch.rand(heads, width // heads))
        self.r, self.k, self.v, self.g, self.o = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.norm, self.head = nn.GroupNorm(heads, width), nn.Linear(width, words)

    def forward(self, ids, targets):
        x = self.words(ids)
        n, t, c = x.shape
        apart = self.shift(x) - x
        mixed = torch.tanh((x + apart * self.maa[0]) @ self.w1).view(n * t, 5, -1).transpose(0, 1)
        mixed = torch.bmm(mixed, self.w2).view(5, n, t, -1)
        xw, xk, xv, xr, xg = (x + apart * (self.maa[i] + mixed[i]) for i in range(5))
        r, k, v = (f(y).view(n, t, self.heads, -1) for f, y in ((self.r, xr), (self.k, xk), (self.v, xv)))
        w = torch.exp(-torch.exp(self.decay + xw)).view(n, t, self.heads, -1)
        state, made = torch.zeros(n, self.heads, c // self.heads, c // self.heads), []
        for i in range(t):
            kv = k[:, i].unsqueeze(-1) * v[:, i].unsqueeze(-2)
            made.append((r[:, i].unsqueeze(-2) @ (self.bonus.unsqueeze(-1) * kv + state)).squeeze(-2))
            state = w[:, i].unsqueeze(-1) * state + kv
        y = self.norm(torch.stack(made, 1).view(n * t, c)).view(n, t, c)
        x = x + self.o(y * F.silu(self.g(xg)))
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


class Resumed(nn.Module):
    """xLSTM's matrix memory, all steps at once, steadied by the largest."""

    def __init__(self, words=40, width=16, heads=2):
        super().__init__()
        self.heads, self.words, self.head = heads, nn.Embedding(words, width), nn.Linear(width, words)
        self.qkv, self.gates = nn.Linear(width, 3 * width), nn.Linear(3 * width, 2 * heads)
        self.norm = nn.GroupNorm(heads, width)

    def forward(self, ids, targets):
        x = self.words(ids)
        n, t, c = x.shape
        qkv = self.qkv(x)
        q, k, v = qkv.view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        gate_in, forget = self.gates(qkv).transpose(1, 2).unsqueeze(-1).chunk(2, 1)
        total = torch.cat([torch.zeros(n, self.heads, 1, 1), torch.cumsum(F.logsigmoid(forget), dim=-2)], dim=-2)
        apart = total.repeat(1, 1, 1, t + 1)
        apart = (apart - apart.transpose(-2, -1))[:, :, 1:, 1:]
        log_d = torch.where(torch.tril(torch.ones(t, t, dtype=torch.bool)), apart, -float("inf"))
        log_d = log_d + gate_in.transpose(-2, -1)
        top, _ = torch.max(log_d, dim=-1, keepdim=True)
        scores = q @ (k.transpose(-2, -1) / math.sqrt(c // self.heads)) * torch.exp(log_d - top)
        size = torch.maximum(scores.sum(dim=-1, keepdim=True).abs(), torch.exp(-top))
        y = (scores / (size + 1e-6)) @ v
        y = self.norm(y.transpose(1, 2).reshape(n * t, c)).view(n, t, c)
        return F.cross_entropy(self.head(x + y).flatten(0, 1), targets.flatten())


class Pointed(nn.Module):
    """A pointer generator: copies words of the source by attention."""

    def __init__(self, words=20, width=8):
        super().__init__()
        self.words, self.encoder = nn.Embedding(words, width), nn.GRU(width, width, batch_first=True)
        self.cell, self.attend = nn.GRUCell(2 * width, width), nn.Linear(2 * width, width)
        self.v, self.gate = nn.Linear(width, 1, bias=False), nn.Linear(3 * width, 1)
        self.out = nn.Linear(2 * width, words)

    def forward(self, source, before, targets):
        keys, state = self.encoder(self.words(source))
        state, context, loss = state[0], torch.zeros_like(keys[:, 0]), 0
        for t in range(before.shape[1]):
            x = self.words(before[:, t])
            state = self.cell(torch.cat([x, context], 1), state)
            both = torch.cat([keys, state.unsqueeze(1).expand_as(keys)], -1)
            score = self.v(torch.tanh(self.attend(both))).squeeze(-1)
            score = score.masked_fill(source == 0, -1e9).softmax(-1)
            context = torch.bmm(score.unsqueeze(1), keys).squeeze(1)
            p = torch.sigmoid(self.gate(torch.cat([x, state, context], 1)))
            words = F.softmax(self.out(torch.cat([state, context], 1)), -1)
            mixed = (p * words).scatter_add(1, source, (1 - p) * score)
            loss = loss - torch.log(mixed.gather(1, targets[:, t:t + 1]).squeeze(1) + 1e-9).mean()
        return loss / before.shape[1]


class Convolved(nn.Module):
    """TextCNN over characters and a highway."""

    def __init__(self, words=30, width=8):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(width, 6, k) for k in (2, 3, 4))
        self.highway, self.drop, self.out = nn.Linear(18, 36), nn.Dropout(0.0), nn.Linear(18, 4)

    def forward(self, ids, labels):
        x = self.words(ids).transpose(1, 2)
        x = torch.cat([F.max_pool1d(F.relu(f(x)), f(x).size(2)).squeeze(2) for f in self.convs], 1)
        new, gate = self.highway(x).chunk(2, 1)
        gate = torch.sigmoid(gate)
        x = gate * F.relu(new) + (1 - gate) * x
        return F.nll_loss(F.log_softmax(self.out(self.drop(x)), 1), labels)


class Bags(nn.Module):
    """fastText: a mean of rows; wide and deep."""

    def __init__(self, words=30, width=8):
        super().__init__()
        self.bag, self.wide = nn.EmbeddingBag(words, width, mode="mean"), nn.EmbeddingBag(words, 1, mode="sum")
        self.deep = nn.Sequential(nn.Linear(width + 3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, ids, x, y):
        z = self.deep(torch.cat([self.bag(ids), x], 1)) + self.wide(ids)
        return F.binary_cross_entropy_with_logits(z.squeeze(1), y, pos_weight=torch.tensor(2.0))


# ---- attention elsewhere ----

class Perceiver(nn.Module):
    """Latents that attend to pictures, then to themselves, twice with the same weights."""

    def __init__(self, width=16):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(5, width) * 0.1)
        self.into, self.places = nn.Linear(3, width), nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.cross = nn.MultiheadAttention(width, 2, batch_first=True)
        self.own = nn.TransformerEncoderLayer(width, 4, 32, 0.0, activation="gelu", batch_first=True, norm_first=True)
        self.norms, self.out = nn.ModuleList(nn.LayerNorm(width) for _ in range(2)), nn.Linear(width, 4)

    def forward(self, x, labels):
        x = self.into(x.flatten(2).transpose(1, 2)) + self.places
        z = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
        for _ in range(2):
            keys = self.norms[1](x)
            z = z + self.cross(self.norms[0](z), keys, keys, need_weights=False)[0]
            z = self.own(z)
        return F.cross_entropy(self.out(z.mean(dim=1)), labels)


class Deformed(nn.Module):
    """Deformable attention of two levels: where to look is computed."""

    def __init__(self, width=8, heads=2, points=3, levels=2):
        super().__init__()
        self.heads, self.points, self.levels = heads, points, levels
        self.query = nn.Parameter(torch.randn(4, width))
        self.refer, self.offsets = nn.Linear(width, 2), nn.Linear(width, heads * levels * points * 2)
        self.weights, self.value = nn.Linear(width, heads * levels * points), nn.Linear(width, width)
        self.stem, self.down, self.out = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, 2, 1), nn.Linear(
            width, 5)

    def forward(self, x, targets):
        maps = [self.stem(x)]
        maps.append(self.down(F.relu(maps[0])))
        n, c = x.shape[0], self.query.shape[1]
        q = self.query.expand(n, -1, -1)
        places = self.refer(q).sigmoid()[:, :, None, None, None, :]
        offsets = self.offsets(q).view(n, -1, self.heads, self.levels, self.points, 2)
        sizes = torch.tensor([[m.shape[3], m.shape[2]] for m in maps], dtype=torch.float)
        at = places + offsets / sizes[None, None, None, :, None, :]
        w = self.weights(q).view(n, -1, self.heads, self.levels * self.points).softmax(-1)
        w = w.view(n, -1, self.heads, self.levels, self.points)
        seen = []
        for i, m in enumerate(maps):
            v = self.value(m.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(
                n * self.heads, c // self.heads, *m.shape[2:])
            grid = (2 * at[:, :, :, i] - 1).transpose(1, 2).flatten(0, 1)
            seen.append(F.grid_sample(v, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
        w = w.transpose(1, 2).reshape(n * self.heads, 1, -1, self.levels * self.points)
        y = (torch.stack(seen, dim=-2).flatten(-2) * w).sum(-1).view(n, c, -1).transpose(1, 2)
        return F.l1_loss(self.out(q + y), targets)


class Found(nn.Module):
    """DETR: queries that have their objects already; classes, boxes and how they overlap."""

    def __init__(self, width=16, classes=4, count=3):
        super().__init__()
        self.stem, self.queries = nn.Conv2d(3, width, 4, 4), nn.Embedding(count, width)
        self.transformer = nn.Transformer(width, 2, 1, 1, 32, 0.0, batch_first=True)
        self.row, self.column = nn.Parameter(torch.rand(4, width // 2)), nn.Parameter(torch.rand(4, width // 2))
        self.classes, self.boxes = nn.Linear(width, classes + 1), nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.register_buffer("weights", torch.tensor([1.0] * classes + [0.1]))

    def corners(self, b):
        x, y, w, h = b.unbind(-1)
        return torch.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h], -1)

    def overlap(self, a, b):
        area = [(x[..., 2] - x[..., 0]) * (x[..., 3] - x[..., 1]) for x in (a, b)]
        inner = (torch.min(a[..., 2:], b[..., 2:]) - torch.max(a[..., :2], b[..., :2])).clamp(min=0)
        outer = (torch.max(a[..., 2:], b[..., 2:]) - torch.min(a[..., :2], b[..., :2])).clamp(min=0)
        inner, outer = inner[..., 0] * inner[..., 1], outer[..., 0] * outer[..., 1]
        union = area[0] + area[1] - inner
        return inner / union - (outer - union) / outer

    def forward(self, x, labels, boxes):
        h = self.stem(x)
        rows, columns = h.shape[-2:]
        places = torch.cat([self.column[:columns].unsqueeze(0).repeat(rows, 1, 1),
                            self.row[:rows].unsqueeze(1).repeat(1, columns, 1)], dim=-1).flatten(0, 1).unsqueeze(0)
        y = self.transformer(places + 0.1 * h.flatten(2).permute(0, 2, 1),
                             self.queries.weight.unsqueeze(0).repeat(x.shape[0], 1, 1))
        found = self.boxes(y).sigmoid()
        loss = F.cross_entropy(self.classes(y).transpose(1, 2), labels, self.weights)
        return loss + 5 * F.l1_loss(found, boxes) + 2 * (1 - self.overlap(
            self.corners(found), self.corners(boxes))).mean()


class Matched(nn.Module):
    """SuperGlue: Sinkhorn's steps among logarithms, with a bin for what has no match."""

    def __init__(self, width=8):
        super().__init__()
        self.own, self.bin = nn.Conv1d(width, width, 1), nn.Parameter(torch.tensor(1.0))

    def forward(self, a, b, wanted):
        n, d, m = a.shape
        scores = torch.einsum("bdn,bdm->bnm", self.own(a), self.own(b)) / d ** 0.5
        bins = self.bin.expand(n, m, 1), self.bin.expand(n, 1, m), self.bin.expand(n, 1, 1)
        z = torch.cat([torch.cat([scores, bins[0]], -1), torch.cat([bins[1], bins[2]], -1)], 1)
        norm = -math.log(2 * m)
        mu = torch.cat([torch.full((m,), norm), torch.tensor([math.log(m) + norm])])[None].expand(n, -1)
        u, v = torch.zeros_like(mu), torch.zeros_like(mu)
        for _ in range(3):
            u = mu - torch.logsumexp(z + v.unsqueeze(1), dim=2)
            v = mu - torch.logsumexp(z + u.unsqueeze(2), dim=1)
        z = z + u.unsqueeze(2) + v.unsqueeze(1) - norm
        return -(z * wanted).sum((1, 2)).mean()


# ---- molecules, points, series ----

class Molecules(nn.Module):
    """SchNet: functions of distances are filters; shifted softplus; atoms that are none do not count."""

    def __init__(self, w=8, basis=6, cutoff=5.0):
        super().__init__()
        self.atoms, self.cutoff = nn.Embedding(10, w, padding_idx=0), cutoff
        self.register_buffer("offset", torch.linspace(0, cutoff, basis))
        self.coeff = -0.5 / (cutoff / (basis - 1)) ** 2
        self.filters = nn.Sequential(nn.Linear(basis, w), nn.Softplus(), nn.Linear(w, w))
        self.into, self.out = nn.Linear(w, w, bias=False), nn.Linear(w, w)
        self.last = nn.Sequential(nn.Linear(w, w // 2), nn.Softplus(), nn.Linear(w // 2, 1))

    def forward(self, z, at, energy):
        real = (z > 0).float()
        d = (at[:, :, None] - at[:, None] + 1e-6).norm(dim=-1)
        rbf = torch.exp(self.coeff * (d.unsqueeze(-1) - self.offset) ** 2)
        inside = 0.5 * (torch.cos(d * math.pi / self.cutoff) + 1.0) * (d < self.cutoff).float()
        pairs = (inside * real[:, :, None] * real[:, None] * (1 - torch.eye(z.shape[1]))).unsqueeze(-1)
        x = self.atoms(z)
        for _ in range(2):
            w = self.filters(rbf) * pairs
            x = x + F.softplus(self.out((w * self.into(x)[:, None]).sum(2))) - math.log(2.0)
        return F.mse_loss((self.last(x).squeeze(-1) * real).sum(1), energy)


class Equivariant(nn.Module):
    """EGNN, and a term of directions with spherical harmonics of degree two."""

    def __init__(self, w=8):
        super().__init__()
        self.into = nn.Linear(4, w)
        self.edge = nn.Sequential(nn.Linear(2 * w + 1, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU())
        self.node = nn.Sequential(nn.Linear(2 * w, w), nn.SiLU(), nn.Linear(w, w))
        self.coord, self.gate = nn.Sequential(nn.Linear(w, w), nn.SiLU(), nn.Linear(w, 1, bias=False), nn.Tanh()), \
            nn.Sequential(nn.Linear(w, 1), nn.Sigmoid())

    def forward(self, h, x, target):
        h, (n, count, _) = self.into(h), h.shape
        for _ in range(2):
            apart = x.unsqueeze(2) - x.unsqueeze(1)
            far = (apart ** 2).sum(-1, keepdim=True)
            apart = apart / (far.sqrt().clamp(min=1e-4) + 1)
            m = self.edge(torch.cat([h.unsqueeze(2).expand(-1, -1, count, -1), h.unsqueeze(1).expand(
                -1, count, -1, -1), far], dim=-1))
            m = m * self.gate(m) * (1 - torch.eye(count)).view(1, count, count, 1)
            x = x + (apart * self.coord(m)).mean(dim=2)
            h = h + self.node(torch.cat([h, m.sum(dim=2)], dim=-1))
        u = F.normalize(x - x.mean(1, keepdim=True), dim=-1)
        a, b, c = u.unbind(-1)
        y = torch.stack([a * b, b * c, 3 * c ** 2 - 1, a * c, a ** 2 - b ** 2], -1)
        return F.mse_loss(x, target) + (y.mean(1) ** 2).sum(-1).mean()


class Grouped(nn.Module):
    """PointNet++: which points are centres and which are near are inputs; interpolation by distance."""

    def __init__(self, w=8):
        super().__init__()
        self.mlp, self.bn = nn.Conv2d(6, w, 1), nn.BatchNorm2d(w)
        self.back, self.out = nn.Conv1d(w + 3, w, 1), nn.Conv1d(w, 4, 1)

    def taken(self, points, index):
        shape = list(index.shape)
        view, repeat = [shape[0]] + [1] * (len(shape) - 1), [1] + shape[1:]
        rows = torch.arange(shape[0], dtype=torch.long).view(view).repeat(repeat)
        return points[rows, index, :]

    def forward(self, xyz, centres, near, three, labels):
        new = self.taken(xyz, centres)
        grouped = self.taken(xyz, near)
        x = torch.cat([grouped - new.unsqueeze(2), grouped], dim=-1).permute(0, 3, 2, 1)
        x = torch.max(F.relu(self.bn(self.mlp(x))), 2)[0].permute(0, 2, 1)
        known = self.taken(x, three)
        far = ((xyz.unsqueeze(2) - self.taken(new, three)) ** 2).sum(-1)
        recip = 1.0 / (far + 1e-8)
        weight = recip / torch.sum(recip, dim=2, keepdim=True)
        y = torch.sum(known * weight.unsqueeze(-1), dim=2)
        y = F.relu(self.back(torch.cat([xyz, y], -1).permute(0, 2, 1)))
        return F.nll_loss(F.log_softmax(self.out(y), dim=1), labels)


class Correlated(nn.Module):
    """Autoformer: trends apart from seasons, delays of a spectrum, the strongest of which are added up."""

    def __init__(self, width=8, length=12):
        super().__init__()
        self.into, self.length = nn.Conv1d(2, width, 3, padding=1, padding_mode="circular", bias=False), length
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.out = nn.Linear(width, 2)

    def parted(self, x, k=5):
        front, end = x[:, :1].repeat(1, (k - 1) // 2, 1), x[:, -1:].repeat(1, (k - 1) // 2, 1)
        mean = F.avg_pool1d(torch.cat([front, x, end], dim=1).permute(0, 2, 1), k, 1).permute(0, 2, 1)
        return x - mean, mean

    def forward(self, x, y):
        h = self.into(x.permute(0, 2, 1)).transpose(1, 2)
        q, k, v = (f(h).transpose(1, 2) for f in (self.q, self.k, self.v))
        corr = torch.fft.irfft(torch.fft.rfft(q, dim=-1) * torch.conj(torch.fft.rfft(k, dim=-1)), n=self.length, dim=-1)
        weights, delay = torch.topk(corr.mean(1), 2, dim=-1)
        weights = torch.softmax(weights, dim=-1)
        twice, z = v.repeat(1, 1, 2), torch.zeros_like(v)
        start = torch.arange(self.length).unsqueeze(0).unsqueeze(0).repeat(v.shape[0], v.shape[1], 1)
        for i in range(2):
            at = start + delay[:, i].unsqueeze(1).unsqueeze(1).repeat(1, v.shape[1], self.length)
            z = z + torch.gather(twice, dim=-1, index=at) * weights[:, i].unsqueeze(1).unsqueeze(1)
        season, trend = self.parted(h + self.o(z.transpose(1, 2)))
        return F.mse_loss(self.out(season + trend), y)


class Mixed(nn.Module):
    """TSMixer, DLinear and N-HiTS in one: trends, mixing over time and features, interpolated forecasts."""

    def __init__(self, length=12, ahead=4, channels=3):
        super().__init__()
        self.norm, self.time, self.feature = nn.BatchNorm2d(1), nn.Linear(length, length), nn.Sequential(
            nn.Linear(channels, 8), nn.ReLU(), nn.Linear(8, channels))
        self.seasonal, self.trend, self.pool = nn.Linear(length, ahead), nn.Linear(length, ahead), nn.MaxPool1d(
            3, 3, ceil_mode=True)
        self.knots, self.ahead = nn.Linear(4, 2), ahead

    def forward(self, x, y):
        mean, std = x.mean(1, keepdim=True).detach(), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = (x - mean) / std
        h = x + F.relu(self.time(self.norm(x.unsqueeze(1)).squeeze(1).transpose(1, 2))).transpose(1, 2)
        h = h + self.feature(h)
        z = h.transpose(1, 2)
        trend = F.avg_pool1d(F.pad(z, (2, 2), mode="replicate"), 5, 1)
        out = self.seasonal(z - trend) + self.trend(trend)
        out = out + F.interpolate(self.knots(self.pool(z)), size=self.ahead, mode="linear")
        return F.huber_loss(out.transpose(1, 2) * std + mean, y, delta=0.5)


class Losses(nn.Module):
    """Losses of PyTorch's that are classes."""

    def __init__(self):
        super().__init__()
        self.net, self.pair = nn.Linear(6, 5), nn.Bilinear(6, 6, 1)
        self.poisson, self.soft = nn.PoissonNLLLoss(), nn.SoftMarginLoss()
        self.multi, self.rank = nn.MultiLabelSoftMarginLoss(), nn.MarginRankingLoss(0.1)
        self.apart, self.triplet = nn.CosineEmbeddingLoss(0.2), nn.TripletMarginLoss(0.5, swap=True)

    def forward(self, x, y, labels, sign):
        a, b = self.net(x), self.net(y)
        loss = self.poisson(a, b.detach().exp()) + F.cross_entropy(a, labels) + self.soft(a[:, 0], sign)
        loss = loss + self.multi(a, (y[:, :5] > 0).float()) + self.rank(a[:, 0], b[:, 0], sign)
        return loss + self.apart(a, b, sign) + self.triplet(a, b, y[:, :5]) + self.pair(x, y).square().mean()


class Acts(nn.Module):
    """Functions of one element that layers are made of."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 6)
        self.acts = nn.ModuleList([nn.Hardshrink(), nn.Softshrink(), nn.Tanhshrink(), nn.Threshold(0.1, 0.2),
                                   nn.LogSigmoid(), nn.Mish(), nn.SELU(), nn.Softsign(), nn.GLU(), nn.Softmin(1)])

    def forward(self, x, y):
        h = self.net(x)
        odd = torch.sinh(h * 0.1) + torch.sign(h) * torch.exp2(h)
        return torch.cat([act(h) for act in self.acts], 1).square().mean() + F.mse_loss(odd, y)


def lm(make):
    return lambda: (make(), (ids(8, below=40), ids(8, below=40)), {})


MODELS = {
    "GPT of speed runs": lm(Speedy), "nGPT": lm(OnASphere), "differential": lm(Difference),
    "Mamba-2, chunks": lm(Chunks), "RWKV-6": lm(Decayed), "mLSTM": lm(Resumed),
    "pointer generator": lambda: (Pointed(), (ids(5, below=20), ids(3, below=20), ids(3, below=20)), {}),
    "TextCNN": lambda: (Convolved(), (ids(8, below=30), ids(below=4)), {}),
    "bags of words": lambda: (Bags(), (ids(6, below=30), reals(3), torch.rand(BATCH).round()), {}),
    "Perceiver": lambda: (Perceiver(), (reals(3, 4, 4), ids(below=4)), {}),
    "deformable attention": lambda: (Deformed(), (reals(3, 8, 8), reals(4, 5)), {}),
    "DETR": lambda: (Found(), (reals(3, 16, 16), ids(3, below=5), torch.rand(BATCH, 3, 4) * 0.5 + 0.2), {}),
    "SuperGlue": lambda: (Matched(), (reals(8, 5), reals(8, 5), torch.rand(BATCH, 6, 6)), {}),
    "SchNet": lambda: (Molecules(), (ids(5, below=10), reals(5, 3), reals()), {}),
    "EGNN": lambda: (Equivariant(), (reals(5, 4), reals(5, 3), reals(5, 3)), {}),
    "PointNet++": lambda: (Grouped(), (reals(9, 3), ids(4, below=9), ids(4, 3, below=9), ids(9, 3, below=4),
                                       ids(9, below=4)), {}),
    "TSMixer, N-HiTS": lambda: (Mixed(), (reals(12, 3), reals(4, 3)), {}),
    "losses": lambda: (Losses(), (reals(6), reals(6), ids(below=5), torch.rand(BATCH).round() * 2 - 1), {}),
    "activations": lambda: (Acts(), (reals(6), reals(6)), {})}
REFUSED = {
    "Autoformer": lambda: (Correlated(), (reals(12, 2), reals(12, 2)), {})}
