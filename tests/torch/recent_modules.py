# Models of 2025 and 2026 that the other lists lack, as people write them: language and how it is trained.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids

nn = torch.nn
WORDS = 40


def rotary(t, size, base=10000.0):
    freqs = torch.outer(torch.arange(t).float(), 1.0 / base ** (torch.arange(0, size, 2).float() / size))
    return freqs.cos(), freqs.sin()


def turned(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def mlp(*sizes, act=nn.ReLU):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


class SpeedRun(nn.Module):
    """modded-nanogpt: documents by their ends, value embeddings, gates from a few features, the token before smeared
    in, skips between halves, a capped head by sigmoid."""

    def __init__(self, width=16, heads=2, layers=4):
        super().__init__()
        self.heads, self.layers = heads, layers
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.values = nn.ModuleList(nn.Embedding(WORDS, width) for _ in range(2))
        self.qkvo = nn.ParameterList(nn.Parameter(torch.randn(4, width, width) * width ** -0.5) for _ in range(layers))
        self.fc = nn.ParameterList(nn.Parameter(torch.randn(2, 4 * width, width) * 0.2) for _ in range(layers))
        self.gate, self.smear = nn.Linear(6, heads, bias=False), nn.Linear(6, 1, bias=False)
        self.scalars = nn.Parameter(torch.cat([torch.ones(layers), *[torch.tensor([1.0, 0.1]) for _ in range(layers)],
                *[
            torch.tensor([0.5, 0.5]) for _ in range(layers)], torch.zeros(1)]))
        cos, sin = rotary(10, width // heads, 1024.0)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def attend(self, i, x, ve, lambdas, mask):
        n, t, c = x.shape
        q, k, v = F.linear(x, self.qkvo[i][:3].flatten(end_dim=1).type_as(x)).view(n, t, 3 * self.heads, -1).chunk(
            3, dim=-2)
        q, k = (F.rms_norm(y, (y.size(-1),)) for y in (q, k))
        q, k = (turned(y, self.cos[None, :t, None], self.sin[None, :t, None]) for y in (q, k))
        v = lambdas[0] * v + (lambdas[1] * ve.view_as(v) if ve is not None else 0)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask,
                                           scale=0.12).transpose(1, 2)
        y = y * torch.sigmoid(self.gate(x[..., :6])).view(n, t, self.heads, 1)
        return F.linear(y.contiguous().view(n, t, c), self.qkvo[i][3])

    def forward(self, seq, targets):
        docs = (seq == 0).cumsum(1)
        at = torch.arange(seq.size(1))
        mask = ((docs[:, :, None] == docs[:, None]) & (at[:, None] >= at) & (at[:, None] - at < 6)).unsqueeze(1)
        ve = [f(seq) for f in self.values]
        ve = [ve[0], ve[1]] + [None] * (self.layers - 4) + [ve[0], ve[1]]
        x = self.embed(seq)
        smear = self.scalars[-1] * torch.sigmoid(self.smear(x[:, 1:, :6]))
        x = x0 = F.rms_norm(torch.cat([x[:, :1], x[:, 1:] + smear * x[:, :-1]], dim=1), (x.size(-1),))
        skips, half = [], self.layers // 2
        weights = self.scalars[:half]
        lambdas = self.scalars[self.layers:3 * self.layers].view(-1, 2)
        own = self.scalars[3 * self.layers:5 * self.layers].view(-1, 2)
        for i in range(self.layers):
            if i >= half:
                x = x + weights[i - half] * skips.pop()
            x = lambdas[i][0] * x + lambdas[i][1] * x0
            x = x + self.attend(i, F.rms_norm(x, (x.size(-1),)), ve[i], own[i], mask)
            y = F.relu(F.linear(F.rms_norm(x, (x.size(-1),)), self.fc[i][0])).square()
            x = x + F.linear(y, self.fc[i][1].T)
            if i < half:
                skips.append(x)
        logits = self.head(F.rms_norm(x, (x.size(-1),))).float()
        logits = 30 * torch.sigmoid(logits / (7.5 * x.size(-1) ** 0.5))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), reduction="sum") / targets.numel()


class Grouped(nn.Module):
    """Qwen3 as taught: norms of queries and keys by head, keys repeated for groups, a mask filled in; tied words."""

    def __init__(self, width=16, heads=4, groups=2, size=6, layers=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, size
        self.tok_emb, self.final = nn.Embedding(WORDS, width), nn.RMSNorm(width, eps=1e-6)
        self.q, self.o = (nn.ModuleList(nn.Linear(*((width, heads * size) if i == 0 else (heads * size, width)),
                bias=False)
                                        for _ in range(layers)) for i in range(2))
        self.k, self.v = (nn.ModuleList(nn.Linear(width, groups * size,
                bias=False) for _ in range(layers)) for _ in range(2))
        self.norms = nn.ModuleList(nn.ModuleList(nn.RMSNorm(d, eps=1e-6) for d in (width, width, size, size))
                                   for _ in range(layers))
        self.gate, self.up = (nn.ModuleList(nn.Linear(width, 24, bias=False) for _ in range(layers)) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(24, width, bias=False) for _ in range(layers))
        cos, sin = rotary(16, size, 1e6)
        self.register_buffer("cos", torch.cat([cos, cos], 1), persistent=False)
        self.register_buffer("sin", torch.cat([sin, sin], 1), persistent=False)

    def rope(self, x):
        t, half = x.shape[2], x.shape[-1] // 2
        rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return (x * self.cos[:t][None, None] + rotated * self.sin[:t][None, None]).to(dtype=x.dtype)

    def attend(self, i, x, mask):
        b, t, _ = x.shape
        q = self.q[i](x).view(b, t, self.heads, self.size).transpose(1, 2)
        k = self.k[i](x).view(b, t, self.groups, self.size).transpose(1, 2)
        v = self.v[i](x).view(b, t, self.groups, self.size).transpose(1, 2)
        q, k = self.rope(self.norms[i][2](q)), self.rope(self.norms[i][3](k))
        k, v = (y.repeat_interleave(self.heads // self.groups, dim=1) for y in (k, v))
        scores = (q @ k.transpose(2, 3)).masked_fill(mask, -torch.inf)
        y = torch.softmax(scores / self.size ** 0.5, dim=-1) @ v
        return self.o[i](y.transpose(1, 2).reshape(b, t, self.heads * self.size))

    def forward(self, idx, targets):
        x = self.tok_emb(idx)
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), diagonal=1)
        for i, norms in enumerate(self.norms):
            x = x + self.attend(i, norms[0](x), mask)
            y = norms[1](x)
            x = x + self.down[i](F.silu(self.gate[i](y)) * self.up[i](y))
        logits = F.linear(self.final(x), self.tok_emb.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


class Sinks(nn.Module):
    """gpt-oss as OpenAI's code has it: a sink beside the scores of each head, a window in every second layer, weights
    of experts looked up for each token, a SwiGLU that is clamped."""

    def __init__(self, width=12, heads=4, groups=2, size=4, layers=2, experts=4, top=2, inner=8, window=3):
        super().__init__()
        self.heads, self.groups, self.size, self.window, self.top = heads, groups, size, window, top
        self.embedding, self.unembedding = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.sinks = nn.ParameterList(nn.Parameter(torch.randn(heads)) for _ in range(layers))
        self.qkv = nn.ModuleList(nn.Linear(width, size * (heads + 2 * groups)) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(heads * size, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers + 1))
        self.gate = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.mlp1 = nn.ParameterList(nn.Parameter(torch.randn(experts, 2 * inner, width) * 0.3) for _ in range(layers))
        self.bias1 = nn.ParameterList(nn.Parameter(torch.randn(experts, 2 * inner) * 0.3) for _ in range(layers))
        self.mlp2 = nn.ParameterList(nn.Parameter(torch.randn(experts, width, inner) * 0.3) for _ in range(layers))
        self.bias2 = nn.ParameterList(nn.Parameter(torch.randn(experts, width) * 0.3) for _ in range(layers))

    def attend(self, i, x):
        n, t, _ = x.shape
        q, k, v = self.qkv[i](x).split([self.heads * self.size, self.groups * self.size, self.groups * self.size], -1)
        mult = self.heads // self.groups
        q = q.view(n, t, self.groups, mult, self.size)
        k, v = (y.view(n, t, self.groups, 1, self.size).expand(-1, -1, -1, mult, -1) for y in (k, v))
        sinks = self.sinks[i].reshape(1, self.groups, mult, 1, 1).expand(n, -1, -1, t, -1)
        mask = torch.triu(q.new_full((t, t), -float("inf")), diagonal=1)
        if i % 2 == 0:
            mask = mask + torch.tril(mask.new_full((t, t), -float("inf")), diagonal=-self.window)
        scores = torch.einsum("nqhmd,nkhmd->nhmqk", q, k) * self.size ** -0.5 + mask[None, None, None]
        w = torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]
        return self.out[i](torch.einsum("nhmqk,nkhmd->nqhmd", w, v).reshape(n, t, -1))

    def experts(self, i, x):
        x = x.view(-1, x.shape[-1])
        chosen = torch.topk(self.gate[i](x), k=self.top, dim=-1, sorted=True)
        weights = F.softmax(chosen.values, dim=1)
        t = torch.einsum("beck,bk->bec", self.mlp1[i][chosen.indices, ...], x) + self.bias1[i][chosen.indices, ...]
        glu, linear = t[..., ::2].clamp(max=7.0), t[..., 1::2].clamp(min=-7.0, max=7.0)
        t = glu * torch.sigmoid(1.702 * glu) * (linear + 1)
        t = torch.einsum("beck,bek->bec", self.mlp2[i][chosen.indices, ...], t) + self.bias2[i][chosen.indices, ...]
        return torch.einsum("bec,be->bc", t, weights)

    def forward(self, x, targets):
        x = self.embedding(x)
        for i in range(len(self.sinks)):
            x = x + self.attend(i, self.norms[2 * i](x))
            x = x + self.experts(i, self.norms[2 * i + 1](x)).view(x.shape)
        return F.cross_entropy(self.unembedding(self.norms[-1](x)).view(-1, WORDS), targets.view(-1))


class Latent(nn.Module):
    """DeepSeek-V3: latents of queries and keys, groups of experts of which the better stay, sigmoids with a bias, and
    a loss that evens out the experts of each sequence."""

    def __init__(self, width=16, heads=2, q_rank=8, rank=6, nope=4, rope=4, v=4, experts=8, groups=4, top=3):
        super().__init__()
        self.heads, self.nope, self.rope, self.v, self.rank = heads, nope, rope, v, rank
        self.groups, self.top = groups, top
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.q_a, self.q_b = nn.Linear(width, q_rank, bias=False), nn.Linear(q_rank, heads * (nope + rope), bias=False)
        self.kv_a, self.kv_b = nn.Linear(width, rank + rope, bias=False), nn.Linear(rank, heads * (nope + v),
                bias=False)
        self.q_norm, self.kv_norm, self.o = nn.RMSNorm(q_rank), nn.RMSNorm(rank), nn.Linear(heads * v, width,
                bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.gate = nn.Parameter(torch.randn(experts, width) * 0.4)
        self.register_buffer("e_score_correction_bias", torch.linspace(0.1, -0.1, experts))
        self.experts = nn.ModuleList(mlp(width, 8, width, act=nn.SiLU) for _ in range(experts))
        self.shared = mlp(width, 16, width, act=nn.SiLU)

    def attend(self, x):
        n, t, _ = x.shape
        q = self.q_b(self.q_norm(self.q_a(x))).view(n, t, self.heads, -1).transpose(1, 2)
        q_nope, q_pe = torch.split(q, [self.nope, self.rope], dim=-1)
        kv, k_pe = torch.split(self.kv_a(x), [self.rank, self.rope], dim=-1)
        kv = self.kv_b(self.kv_norm(kv)).view(n, t, self.heads, self.nope + self.v).transpose(1, 2)
        k_nope, v = torch.split(kv, [self.nope, self.v], dim=-1)
        cos, sin = rotary(t, self.rope)
        q_pe, k_pe = turned(q_pe, cos, sin), turned(k_pe.view(n, t, 1, self.rope).transpose(1, 2), cos, sin)
        k = k_pe.new_empty(n, self.heads, t, self.nope + self.rope)
        k[..., :self.nope], k[..., self.nope:] = k_nope, k_pe
        q = torch.cat([q_nope, q_pe], -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(n, t, -1))

    def route(self, x):
        n, t, c = x.shape
        x, count = x.view(-1, c), len(self.experts)
        scores = F.linear(x.float(), self.gate.float()).sigmoid()
        choice = scores.view(n * t, -1) + self.e_score_correction_bias.unsqueeze(0)
        groups = choice.view(n * t, self.groups, -1).topk(2, dim=-1)[0].sum(dim=-1)
        idx = torch.topk(groups, k=2, dim=-1, sorted=False)[1]
        kept = torch.zeros_like(groups).scatter_(1, idx, 1).unsqueeze(-1).expand(-1, self.groups, count // self.groups)
        choice = choice.masked_fill(~kept.reshape(n * t, -1).bool(), float("-inf"))
        _, top = torch.topk(choice, k=self.top, dim=-1, sorted=False)
        w = scores.gather(1, top)
        w = w / (w.sum(dim=-1, keepdim=True) + 1e-20) * 2.5
        mask = F.one_hot(top, count).sum(1).view(n, t, count).float()
        share = (scores / scores.sum(-1, keepdim=True)).view(n, t, count)
        even = (mask.mean(1) * count / self.top * share.mean(1)).sum(-1).mean()
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            at, nth = torch.where(top == i)
            y[at] += expert(x[at]) * w[at, nth, None]
        return (y + self.shared(x)).view(n, t, c), even

    def forward(self, x, targets):
        x = self.embed(x)
        x = x + self.attend(self.norms[0](x))
        y, even = self.route(self.norms[1](x))
        return F.cross_entropy(self.head(self.norms[2](x + y)).transpose(1, 2), targets) + 1e-3 * even


class Griffin(nn.Module):
    """Hawk's gated linear recurrence after a causal convolution, and attention to what is near with one head of
    keys."""

    def __init__(self, width=12, inner=16, heads=3, window=4):
        super().__init__()
        self.heads, self.window, self.embed = heads, window, nn.Embedding(WORDS, width)
        self.into, self.out = nn.Linear(width, 2 * inner), nn.Linear(inner, width)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.gates = nn.Parameter(torch.randn(2, 2, inner // 2, inner // 2) * 0.3)
        self.gate_bias, self.forget = nn.Parameter(torch.zeros(2, inner)), nn.Parameter(torch.linspace(-4.3, -9, inner))
        self.q, self.kv, self.o = nn.Linear(width, width), nn.Linear(width, 2 * width // heads), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))

    def recur(self, x):
        n, t, _ = x.shape
        gate, x = self.into(x).chunk(2, dim=-1)
        x = self.conv(x.mT)[..., :t].mT
        blocks = x.unflatten(-1, (2, -1))
        r, i = (torch.sigmoid(torch.einsum("nthi,hij->nthj", blocks, w).flatten(-2) + b)
                for w, b in zip(self.gates, self.gate_bias))
        alpha = (-8 * F.softplus(self.forget) * r).exp()
        beta = (1 - alpha ** 2 + 1e-6).sqrt()
        x = beta * (i * x)
        h, states = x[:, 0], [x[:, 0]]
        for s in range(1, t):
            h = alpha[:, s] * h + x[:, s]
            states.append(h)
        return self.out(F.gelu(gate) * torch.stack(states, 1))

    def near(self, x):
        n, t, c = x.shape
        q = self.q(x).view(n, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).unsqueeze(1).chunk(2, -1)
        at = torch.arange(t)
        mask = (at[:, None] >= at[None]) & (at[:, None] < at[None] + self.window)
        scores = torch.where(mask, q @ k.mT * q.size(-1) ** -0.5, torch.tensor(-2.3819763e38))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))

    def forward(self, x, targets):
        x = self.embed(x)
        x = x + self.recur(self.norms[0](x))
        x = x + self.near(self.norms[1](x))
        return F.cross_entropy((self.norms[2](x) @ self.embed.weight.T).flatten(0, 1), targets.flatten())


class Goose(nn.Module):
    """RWKV-7: low ranks that say decay, learning rate, how much of the first values, and a gate; states with what is
    removed; group norm, and a bonus."""

    def __init__(self, width=16, heads=2, rank=4, layers=2):
        super().__init__()
        self.heads, self.embed, self.head = heads, nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.mix = nn.ParameterList(nn.Parameter(torch.rand(6, 1, 1, width)) for _ in range(layers))
        self.lora = nn.ModuleList(nn.ModuleDict({k: nn.Sequential(nn.Linear(width, rank, bias=False), nn.Tanh(
            ) if k == "w" else nn.Sigmoid() if k == "g" else nn.Identity(), nn.Linear(rank, width)) for k in "wavg"})
            for _ in range(layers))
        self.rkv = nn.ModuleList(nn.ModuleList(nn.Linear(width, width,
                bias=False) for _ in range(4)) for _ in range(layers))
        self.k_k, self.k_a = (nn.ParameterList(nn.Parameter(torch.rand(width)) for _ in range(layers))
                for _ in range(2))
        self.r_k = nn.ParameterList(nn.Parameter(torch.randn(heads, width // heads) * 0.1) for _ in range(layers))
        self.ln_x = nn.ModuleList(nn.GroupNorm(heads, width, eps=64e-5) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.x_k = nn.ParameterList(nn.Parameter(torch.rand(width)) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(layers))
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))

    def time(self, i, x, v_first):
        n, t, c = x.shape
        h, size, lora = self.heads, c // self.heads, self.lora[i]
        xx = self.shift(x) - x
        xr, xw, xk, xv, xa, xg = (x + xx * m for m in self.mix[i])
        r, k, v = (f(y) for f, y in zip(self.rkv[i], (xr, xk, xv)))
        w = -F.softplus(-lora["w"](xw)) - 0.5
        v_first = v if i == 0 else v_first
        v = v if i == 0 else v + (v_first - v) * torch.sigmoid(lora["v"](xv))
        a, g = torch.sigmoid(lora["a"](xa)), lora["g"](xg)
        kk = F.normalize((k * self.k_k[i]).view(n, t, h, -1), dim=-1, p=2.0).view(n, t, c)
        k = k * (1 + (a - 1) * self.k_a[i])
        w = torch.exp(-torch.exp(w)).view(n, t, h, size)
        r_, k_, v_, a_, b_ = (y.view(n, t, h, size) for y in (r, k, v, -kk, kk * a))
        state, out = torch.zeros(n, h, size, size), []
        for s in range(t):
            vk = v_[:, s].view(n, h, size, 1) @ k_[:, s].view(n, h, 1, size)
            ab = a_[:, s].view(n, h, size, 1) @ b_[:, s].view(n, h, 1, size)
            state = state * w[:, s].view(n, h, 1, size) + state @ ab + vk
            out.append((state @ r_[:, s].view(n, h, size, 1)).view(n, c))
        x = self.ln_x[i](torch.stack(out, 1).view(n * t, c)).view(n, t, c)
        x = x + ((r_ * k_ * self.r_k[i]).sum(dim=-1, keepdim=True) * v_).view(n, t, c)
        return self.rkv[i][3](x * g), v_first

    def forward(self, tokens, targets):
        x, first = self.embed(tokens), None
        for i in range(len(self.mix)):
            y, first = self.time(i, self.norms[2 * i](x), first)
            x = x + y
            y = self.norms[2 * i + 1](x)
            x = x + self.down[i](torch.relu(self.up[i](y + (self.shift(y) - y) * self.x_k[i])) ** 2)
        return F.cross_entropy(self.head(self.norms[-1](x)).view(-1, WORDS), targets.view(-1))


class Bidirectional(nn.Module):
    """ModernBERT: near in two of three layers, GeGLU in one product, padding by a mask, a head of its own; words that
    are hidden are told."""

    def __init__(self, width=16, heads=2, layers=3, window=2):
        super().__init__()
        self.heads, self.window, self.tok = heads, window, nn.Embedding(WORDS, width, padding_idx=1)
        self.first, self.last = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.o = (nn.ModuleList(nn.Linear(width, (3 - 2 * i) * width, bias=False) for _ in range(layers))
                            for i in range(2))
        self.wi = nn.ModuleList(nn.Linear(width, 48, bias=False) for _ in range(layers))
        self.wo = nn.ModuleList(nn.Linear(24, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=False) for _ in range(2 * layers))
        self.dense, self.norm, self.bias = nn.Linear(width, width, bias=False), nn.LayerNorm(
            width, bias=False), nn.Parameter(torch.zeros(WORDS))

    def forward(self, input_ids, attention_mask, labels):
        x = self.first(self.tok(input_ids))
        n, t, c = x.shape
        whole = (1.0 - attention_mask[:, None, None, :].to(x.dtype).expand(n, 1, t, t)) * torch.finfo(x.dtype).min
        rows = torch.arange(t).unsqueeze(0)
        near = (torch.abs(rows - rows.T) <= self.window).unsqueeze(0).unsqueeze(0)
        local = whole.masked_fill(near.logical_not(), torch.finfo(x.dtype).min)
        for i in range(len(self.qkv)):
            qkv = self.qkv[i](x if i == 0 else self.norms[2 * i](x)).view(n, t, 3, self.heads, -1)
            cos, sin = rotary(t, c // self.heads, 160000.0 if i % 3 == 0 else 10000.0)
            q, k, v = qkv.transpose(3, 1).unbind(dim=2)
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=whole if i % 3 == 0 else local)
            x = x + self.o[i](y.transpose(1, 2).contiguous().view(n, t, c))
            y, gate = self.wi[i](self.norms[2 * i + 1](x)).chunk(2, dim=-1)
            x = x + self.wo[i](F.gelu(y) * gate)
        x = self.norm(F.gelu(self.dense(self.last(x))))
        logits = F.linear(x, self.tok.weight, self.bias)
        return F.cross_entropy(logits.view(-1, WORDS), labels.view(-1), ignore_index=-100)


class Buckets(nn.Module):
    """T5: biases of buckets of distances that layers share, decoder's words are the labels shifted, padding is
    hidden."""

    def __init__(self, width=16, heads=2, buckets=8, far=12):
        super().__init__()
        self.heads, self.buckets, self.far, self.shared = heads, buckets, far, nn.Embedding(WORDS, width)
        self.bias = nn.ModuleList(nn.Embedding(buckets, heads) for _ in range(2))
        self.qkvo = nn.ModuleList(nn.ModuleList(nn.Linear(width, width,
                bias=False) for _ in range(4)) for _ in range(4))
        self.ffs = nn.ModuleList(nn.ModuleList(nn.Linear(*s, bias=False) for s in ((width, 24), (width, 24), (24,
                width)))
                                 for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(7))

    def bucket(self, rel, both):
        count, found = self.buckets, 0
        if both:
            count //= 2
            found = found + (rel > 0).to(torch.long) * count
            rel = torch.abs(rel)
        else:
            rel = -torch.min(rel, torch.zeros_like(rel))
        exact = count // 2
        large = exact + (torch.log(rel.float() / exact) / math.log(self.far / exact) * (count - exact)).to(torch.long)
        large = torch.min(large, torch.full_like(large, count - 1))
        return found + torch.where(rel < exact, rel, large)

    def attend(self, i, x, y, bias):
        n, t, c = x.shape
        q, k, v = (f(z).view(n, -1, self.heads, c // self.heads).transpose(1, 2)
                   for f, z in zip(self.qkvo[i], (x, y, y)))
        scores = torch.matmul(q, k.transpose(3, 2)) + bias
        w = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.qkvo[i][3](torch.matmul(w, v).transpose(1, 2).contiguous().view(n, t, c))

    def places(self, i, t, both):
        rel = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        return self.bias[i](self.bucket(rel, both)).permute([2, 0, 1]).unsqueeze(0)

    def feed(self, i, x):
        return self.ffs[i][2](F.gelu(self.ffs[i][0](x), approximate="tanh") * self.ffs[i][1](x))

    def forward(self, input_ids, labels):
        least = torch.finfo(torch.float32).min
        hidden = (1.0 - (input_ids != 0)[:, None, None, :].float()) * least
        x, bias = self.shared(input_ids), self.places(0, input_ids.shape[1], True)
        z = self.norms[0](x)
        x = x + self.attend(0, z, z, bias + hidden)
        x = x + self.feed(0, self.norms[1](x))
        memory = self.norms[2](x)
        shifted = labels.new_zeros(labels.shape)
        shifted[..., 1:] = labels[..., :-1].clone()
        shifted[..., 0] = 0
        shifted.masked_fill_(shifted == -100, 0)
        t = labels.shape[1]
        bias = self.places(1, t, False) + torch.triu(torch.full((t, t), least), 1)
        x = self.shared(shifted)
        z = self.norms[3](x)
        x = x + self.attend(1, z, z, bias)
        x = x + self.attend(2, self.norms[4](x), memory, hidden)
        x = x + self.feed(1, self.norms[5](x))
        logits = F.linear(self.norms[6](x) * x.shape[-1] ** -0.5, self.shared.weight)
        return F.cross_entropy(logits.view(-1, WORDS), labels.view(-1), ignore_index=-100)


class Unmasked(nn.Module):
    """LLaDA: words are hidden at a rate of each text's own, and told by what weighs as rare hiding is."""

    def __init__(self, width=16):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS + 1, width), nn.Linear(width, WORDS + 1)
        self.body = nn.TransformerEncoderLayer(width, 2, 32, 0.0, batch_first=True, norm_first=True)

    def forward(self, input_ids, t, draw):
        n, length = input_ids.shape
        p_mask = ((1 - 1e-3) * t + 1e-3)[:, None].repeat(1, length)
        masked = draw < p_mask
        noisy = torch.where(masked, WORDS, input_ids)
        logits = self.head(self.body(self.embed(noisy)))
        loss = F.cross_entropy(logits[masked], input_ids[masked], reduction="none") / p_mask[masked]
        return loss.sum() / (n * length)


class Placed(nn.Module):
    """Switch: each expert has places for so many tokens, in the order in which they come; what has none goes by.
    Experts are even by a loss of shares."""

    def __init__(self, width=12, experts=4, capacity=3):
        super().__init__()
        self.capacity, self.embed, self.head = capacity, nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.router = nn.Linear(width, experts, bias=False)
        self.wi, self.wo = (nn.Parameter(torch.randn(experts, *s) * 0.3) for s in ((width, 16), (16, width)))

    def forward(self, x, targets):
        x = self.embed(x)
        logits = self.router(x)
        probs = F.softmax(logits, dim=-1)
        gate, index = probs.max(dim=-1)
        mask = F.one_hot(index, probs.size(-1)).float()
        even = (mask.mean(1) * probs.mean(1)).sum(-1).mean() * probs.size(-1)
        order = torch.cumsum(mask, dim=1) * mask
        mask = mask * (order <= self.capacity)
        place = ((order - 1) * mask).sum(-1)
        slots = (place.unsqueeze(-1) == torch.arange(self.capacity)).float()
        dispatch = torch.einsum("nte,ntc->ntec", mask, slots)
        inputs = torch.einsum("ntec,ntd->necd", dispatch, x)
        out = torch.einsum("necf,efd->necd", F.relu(torch.einsum("necd,edf->necf", inputs, self.wi)), self.wo)
        y = torch.einsum("ntec,necd->ntd", dispatch * gate[..., None, None], out)
        z = torch.logsumexp(logits, dim=-1).square().mean()
        return F.cross_entropy(self.head(x + y).transpose(1, 2), targets) + 0.01 * even + 1e-3 * z


class Trained(nn.Module):
    """TTT-Linear: the state is a linear map, trained within forward by a gradient that is written out."""

    def __init__(self, width=12, heads=2):
        super().__init__()
        size = width // heads
        self.heads, self.embed, self.head = heads, nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.qkv, self.rate = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, heads)
        self.w, self.b = nn.Parameter(torch.randn(heads, size, size) * 0.1), nn.Parameter(torch.zeros(heads, 1, size))
        self.scale, self.shift, self.o = nn.Parameter(torch.ones(heads, 1, size)), nn.Parameter(
            torch.zeros(heads, 1, size)), nn.Linear(width, width)

    def forward(self, x, targets):
        x = self.embed(x)
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        rate = torch.sigmoid(self.rate(x)).transpose(1, 2) / q.shape[-1]
        w, b = self.w.tile((n, 1, 1, 1)), self.b.tile((n, 1, 1, 1))
        out = []
        for i in range(t):
            ki, vi, qi = k[:, :, i:i + 1], v[:, :, i:i + 1], q[:, :, i:i + 1]
            z = ki @ w + b
            mu, var = z.mean(-1, keepdim=True), z.var(-1, keepdim=True, unbiased=False)
            std = torch.sqrt(var + 1e-6)
            hat = (z - mu) / std
            g = (self.scale * hat + self.shift - (vi - ki)) * self.scale
            d = z.shape[-1]
            g = (d * g - g.sum(-1, keepdim=True) - hat * (g * hat).sum(-1, keepdim=True)) / (d * std)
            eta = rate[:, :, i, None, None]
            w, b = w - eta * ki.transpose(-2, -1) @ g, b - eta * g
            z = qi @ w + b
            z = F.layer_norm(z, (d,)) * self.scale + self.shift
            out.append(qi + z)
        y = torch.cat(out, dim=2).transpose(1, 2).reshape(n, t, c)
        return F.cross_entropy(self.head(x + self.o(y)).flatten(0, 1), targets.flatten())


class Streams(nn.Module):
    """Hyper-connections kept on a manifold: several streams beside each other, mixed by matrices that Sinkhorn's steps
    make doubly stochastic."""

    def __init__(self, width=12, streams=3, layers=2):
        super().__init__()
        self.streams, self.embed, self.head = streams, nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.maps = nn.ModuleList(nn.Linear(streams * width, streams * (streams + 2),
                bias=False) for _ in range(layers))
        self.static = nn.ParameterList(nn.Parameter(torch.randn(streams * (streams + 2)) * 0.2) for _ in range(layers))
        self.alpha = nn.Parameter(torch.full((layers, 3), 0.01))
        self.blocks = nn.ModuleList(mlp(width, 24, width, act=nn.GELU) for _ in range(layers))

    def forward(self, x, targets):
        s = self.streams
        x = self.embed(x)[:, :, None].repeat(1, 1, s, 1)
        for i, (f, static, block) in enumerate(zip(self.maps, self.static, self.blocks)):
            y = F.rms_norm(x.flatten(2), (x.size(2) * x.size(3),))
            pre, post, res = torch.split(f(y), [s, s, s * s], dim=-1)
            bias = static.split([s, s, s * s])
            pre = torch.sigmoid(self.alpha[i, 0] * pre + bias[0])
            post = 2 * torch.sigmoid(self.alpha[i, 1] * post + bias[1])
            m = torch.exp(self.alpha[i, 2] * res + bias[2]).unflatten(-1, (s, s))
            for _ in range(4):
                m = m / m.sum(dim=-1, keepdim=True)
                m = m / m.sum(dim=-2, keepdim=True)
            y = block(torch.einsum("bts,btsd->btd", pre, x))
            x = torch.einsum("btij,btjd->btid", m, x) + post.unsqueeze(-1) * y.unsqueeze(2)
        return F.cross_entropy(self.head(x.sum(2)).transpose(1, 2), targets)


def lm(make):
    return lambda: (make(), (ids(8, below=WORDS), ids(8, below=WORDS)), {})


MODELS = {
    "modded-nanogpt, documents": lm(SpeedRun), "Qwen3, by hand": lm(Grouped), "gpt-oss, by hand": lm(Sinks),
    "DeepSeek-V3, by hand": lm(Latent), "Griffin": lm(Griffin), "RWKV-7": lm(Goose),
    "ModernBERT, by hand": lambda: (Bidirectional(), (ids(8, below=WORDS), torch.ones(BATCH, 8).long(), ids(
        8, below=WORDS)), {"below": {"attention_mask": 2}, "own": True}),
    "T5, labels shifted": lm(Buckets),
    "LLaDA": lambda: (Unmasked(), (ids(8, below=WORDS), torch.rand(BATCH), torch.rand(BATCH, 8)), {"own": True}),
    "Switch, capacity": lm(Placed), "TTT-Linear": lm(Trained), "hyper-connections": lm(Streams)}
