# Models of 2025 and 2026 that the other lists lack, as people write them: language.  Each of MODELS makes a module,
# its inputs, and options of the export; what each of REFUSED does is said in a sentence.
# SPDX-License-Identifier: Apache-2.0
from pytorch import F, torch  # says SKIP and ends without PyTorch
from recent_modules import WORDS, lm, mlp, rotary, turned
from today_modules import BATCH, ids

nn = torch.nn


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class Chat(nn.Module):
    """nanochat: words padded to a multiple, norms without weights, a squared ReLU, the first input mixed in again,
    value embeddings behind gates, windows, a capped head."""

    def __init__(self, width=16, heads=2, layers=3, padded=48):
        super().__init__()
        self.heads, self.wte = heads, nn.Embedding(padded, width)
        self.h = nn.ModuleList(nn.ModuleDict({
            "q": nn.Linear(width, width, bias=False), "k": nn.Linear(width, width, bias=False),
            "v": nn.Linear(width, width, bias=False), "o": nn.Linear(width, width, bias=False),
            "gate": nn.Linear(4, heads, bias=False), "fc": nn.Linear(width, 32, bias=False),
            "proj": nn.Linear(32, width, bias=False)}) for _ in range(layers))
        self.value_embeds = nn.ModuleDict({str(i): nn.Embedding(padded, width) for i in range(0, layers, 2)})
        self.resid, self.x0 = nn.Parameter(torch.ones(layers)), nn.Parameter(torch.full((layers,), 0.1))
        self.lm_head = nn.Linear(width, padded, bias=False)
        cos, sin = rotary(16, width // heads)
        self.register_buffer("cos", cos[None, :, None], persistent=False)
        self.register_buffer("sin", sin[None, :, None], persistent=False)

    def forward(self, idx, targets):
        n, t = idx.size()
        cos, sin = self.cos[:, :t], self.sin[:, :t]
        x = x0 = norm(self.wte(idx))
        for i, block in enumerate(self.h):
            x = self.resid[i] * x + self.x0[i] * x0
            y = norm(x)
            q, k, v = (block[w](y).view(n, t, self.heads, -1) for w in "qkv")
            if str(i) in self.value_embeds:
                ve = self.value_embeds[str(i)](idx).view(n, t, self.heads, -1)
                v = v + (2 * torch.sigmoid(block["gate"](y[..., :4]))).unsqueeze(-1) * ve
            q, k = norm(turned(q, cos, sin)), norm(turned(k, cos, sin))
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            if i % 2:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                row, col = torch.arange(t).unsqueeze(1), torch.arange(t).unsqueeze(0)
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=(col <= row) & ((row - col) <= 3))
            x = x + block["o"](y.transpose(1, 2).contiguous().view(n, t, -1))
            x = x + block["proj"](F.relu(block["fc"](norm(x))).square())
        logits = self.lm_head(norm(x))[..., :WORDS].float()
        logits = 15 * torch.tanh(logits / 15)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1, reduction="mean")


class Next(nn.Module):
    """Qwen3-Next: a gated delta rule step by step, written into places of its output; attention with a gate of its
    output and rotation of some features; experts beside one that a sigmoid weighs; norms whose weights begin at 0."""

    def __init__(self, width=16, heads=2, size=4):
        super().__init__()
        self.heads, self.size = heads, size
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        inner = heads * size
        self.qkvz, self.ba = nn.Linear(width, 4 * inner, bias=False), nn.Linear(width, 2 * heads, bias=False)
        self.conv1d = nn.Conv1d(3 * inner, 3 * inner, 4, groups=3 * inner, padding=3, bias=False)
        self.dt_bias, self.A_log = nn.Parameter(torch.ones(heads)), nn.Parameter(torch.rand(heads).mul(8).add(1).log())
        self.gated, self.out = nn.Parameter(torch.ones(size)), nn.Linear(inner, width, bias=False)
        self.q, self.kv, self.o = nn.Linear(width, 2 * inner), nn.Linear(width, 2 * size), nn.Linear(inner, width)
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(4))
        self.gate, self.shared_gate = nn.Linear(width, 4, bias=False), nn.Linear(width, 1, bias=False)
        self.experts, self.shared = nn.ModuleList(mlp(width, 8, width) for _ in range(4)), mlp(width, 8, width)

    def norm(self, i, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1.0 + self.weights[i].float())).type_as(x)

    def delta(self, x):
        n, t, _ = x.shape
        qkv, z = self.qkvz(x).split([3 * self.heads * self.size, self.heads * self.size], dim=-1)
        b, a = self.ba(x).chunk(2, -1)
        qkv = F.silu(self.conv1d(qkv.transpose(1, 2))[:, :, :t]).transpose(1, 2)
        q, k, v = (y.reshape(n, t, self.heads, -1).transpose(1, 2).contiguous() for y in qkv.chunk(3, -1))
        q, k = (y * torch.rsqrt((y * y).sum(dim=-1, keepdim=True) + 1e-6) for y in (q, k))
        beta = b.sigmoid().transpose(1, 2)
        g = (-self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias)).transpose(1, 2)
        q = q * self.size ** -0.5
        out = torch.zeros(n, self.heads, t, self.size).to(v)
        state = torch.zeros(n, self.heads, self.size, self.size).to(v)
        for i in range(t):
            state = state * g[:, :, i].exp().unsqueeze(-1).unsqueeze(-1)
            mem = (state * k[:, :, i].unsqueeze(-1)).sum(dim=-2)
            d = (v[:, :, i] - mem) * beta[:, :, i].unsqueeze(-1)
            state = state + k[:, :, i].unsqueeze(-1) * d.unsqueeze(-2)
            out[:, :, i] = (state * q[:, :, i].unsqueeze(-1)).sum(dim=-2)
        y = out.transpose(1, 2)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gated
        return self.out((y * F.silu(z.view(y.shape))).reshape(n, t, -1))

    def attend(self, x):
        n, t, _ = x.shape
        q, gate = self.q(x).view(n, t, self.heads, 2 * self.size).chunk(2, dim=-1)
        k, v = (y.view(n, t, 1, self.size).transpose(1, 2) for y in self.kv(x).chunk(2, -1))
        cos, sin = rotary(t, self.size // 2)
        q = q.transpose(1, 2)
        q, k = (torch.cat([turned(y[..., :2], cos, sin), y[..., 2:]], dim=-1) for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(n, t, -1) * torch.sigmoid(gate.reshape(n, t, -1)))

    def sparse(self, x):
        n, t, c = x.shape
        x = x.view(-1, c)
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=1, dtype=torch.float), 2, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
        found = torch.zeros((n * t, c), dtype=x.dtype)
        hit = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            at, top = torch.where(hit[i])
            found.index_add_(0, top, expert(x[None, top].reshape(-1, c)) * weights[top, at, None])
        return (found + F.sigmoid(self.shared_gate(x)) * self.shared(x)).reshape(n, t, c)

    def forward(self, x, targets):
        x = self.embed(x)
        x = x + self.delta(self.norm(0, x))
        x = x + self.attend(self.norm(1, x))
        x = x + self.sparse(self.norm(2, x))
        return F.cross_entropy(self.head(self.norm(3, x)).view(-1, WORDS), targets.view(-1))


class Alternating(nn.Module):
    """Gemma 3n: streams that predict each other and are corrected, a low-rank path, embeddings of each layer, features
    that a Gaussian's quantile lets through, keys that later layers share."""

    def __init__(self, width=12, streams=3, layers=2, per=4):
        super().__init__()
        self.streams, self.per, self.layers = streams, per, layers
        self.embed, self.embed_per = nn.Embedding(WORDS, width), nn.Embedding(WORDS, layers * per)
        self.into, self.outof = (nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(streams - 1))
                                 for _ in range(2))
        self.router = nn.ModuleList(nn.Linear(width, streams, bias=False) for _ in range(layers))
        self.predict = nn.ModuleList(nn.Linear(streams, streams ** 2, bias=False) for _ in range(layers))
        self.correct = nn.ModuleList(nn.Linear(streams, streams, bias=False) for _ in range(layers))
        self.scale = nn.Parameter(torch.ones(layers, width))
        self.left, self.right = nn.Linear(width, 3, bias=False), nn.Linear(3, width, bias=False)
        self.q, self.kv, self.o = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.gate, self.up, self.down = nn.Linear(width, 24), nn.Linear(width, 24), nn.Linear(24, width)
        self.per_gate, self.per_out = nn.Linear(width, per, bias=False), nn.Linear(per, width, bias=False)

    def sparse(self, x):
        std = torch.distributions.normal.Normal(0, 1).icdf(torch.tensor(0.7))
        cut = torch.mean(x, dim=-1, keepdim=True) + torch.std(x, dim=-1, keepdim=True, unbiased=False) * std
        return F.relu(x - cut)

    def forward(self, ids, targets):
        x = self.embed(ids) * self.embed.embedding_dim ** 0.5
        per = self.embed_per(ids).reshape(*ids.shape, self.layers, self.per)
        target = torch.mean(x ** 2, dim=-1, keepdim=True) ** 0.5
        xs = [x]
        for f in self.into:
            y = f(x)
            xs.append(y * target / torch.sqrt(torch.maximum((y ** 2).mean(-1, keepdim=True), torch.tensor(1e-5))))
        xs = torch.stack(xs, dim=0)
        kv = None
        for i in range(self.layers):
            modalities = torch.tanh(self.router[i](norm(xs[0]) * xs.shape[-1] ** -1.0).float())
            coefs = self.predict[i](modalities).reshape(*modalities.shape[:-1], self.streams, self.streams)
            guess = torch.matmul(xs.permute(1, 2, 3, 0), coefs.permute(0, 1, 3, 2)).permute(3, 0, 1, 2) + xs
            active = norm(guess[0])
            laurel = active + norm(self.right(self.left(active)))
            q = self.q(active)
            kv = self.kv(active) if kv is None else kv
            k, v = kv.chunk(2, -1)
            y = guess[0] + norm(self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)))
            y = (y + laurel) / 2 ** 0.5
            h = norm(y)
            y = y + norm(self.down(F.gelu(self.sparse(self.gate(h)), approximate="tanh") * self.up(h)))
            innovation = (y - guess[0]).repeat(self.streams, 1, 1, 1)
            how = (self.correct[i](torch.tanh(self.router[i](norm(y)))) + 1.0).permute(2, 0, 1).unsqueeze(-1)
            corrected = innovation * how + guess
            first = corrected[0].clone() * self.scale[i]
            first = norm(self.per_out(F.gelu(self.per_gate(first)) * per[:, :, i, :]))
            corrected[1:] += first
            xs = corrected
        ys = [xs[0]] + [f(xs[i + 1]) for i, f in enumerate(self.outof)]
        logits = F.linear(norm(torch.mean(torch.stack(ys), dim=0)), self.embed.weight)
        logits = torch.tanh(logits / 30.0) * 30.0
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Indexed(nn.Module):
    """DeepSeek-V3.2: a small indexer scores all keys, queries attend to the best; it learns from where attention
    went."""

    def __init__(self, width=16, heads=2, index_heads=8, index=4, top=3):
        super().__init__()
        self.heads, self.index, self.top = heads, index, top
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.wq, self.wk = nn.Linear(width, index_heads * index, bias=False), nn.Linear(width, index, bias=False)
        self.k_norm, self.weights = nn.LayerNorm(index), nn.Linear(width, index_heads, bias=False)

    def forward(self, x, targets):
        x = self.embed(x)
        n, t, c = x.shape
        causal = torch.full((t, t), float("-inf")).triu_(1)
        y = x.detach()
        iq, ik = self.wq(y).unflatten(-1, (-1, self.index)), self.k_norm(self.wk(y))
        w = self.weights(y) * iq.size(2) ** -0.5
        score = torch.einsum("bshd,btd->bsht", iq, ik).relu() * self.index ** -0.5
        score = torch.einsum("bsht,bsh->bst", score, w) + causal
        places = score.topk(min(self.top, t), dim=-1)[1]
        mask = torch.full((n, t, t), float("-inf")).scatter_(-1, places, 0) + causal
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in self.qkv(norm(x)).chunk(3, -1))
        p = ((q @ k.mT) * q.size(-1) ** -0.5 + mask.unsqueeze(1)).float().softmax(dim=-1)
        x = x + self.o((p @ v).transpose(1, 2).reshape(n, t, c))
        goal = p.detach().sum(1)
        goal = goal / goal.sum(-1, keepdim=True)
        logp = F.log_softmax(score, dim=-1)
        kl = torch.where(goal > 0, goal * (goal.clamp_min(1e-9).log() - logp), 0.0).sum(-1).mean()
        return F.cross_entropy(self.head(norm(x)).transpose(1, 2), targets) + 0.1 * kl


class Native(nn.Module):
    """Native sparse attention: means of blocks, the best blocks of each query, and a window, behind three gates."""

    def __init__(self, width=12, heads=2, block=4, top=2, window=3):
        super().__init__()
        self.heads, self.block, self.top, self.window = heads, block, top, window
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.pos, self.gates = nn.Parameter(torch.randn(block, width // heads) * 0.1), nn.Linear(width, 3 * heads)
        self.compress = nn.Linear(block * width // heads, width // heads)

    def forward(self, x, targets):
        x = self.embed(x)
        n, t, c = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scale, blocks = q.size(-1) ** -0.5, t // self.block
        ck, cv = (self.compress((y.unflatten(2, (blocks, self.block)) + self.pos).flatten(3)) for y in (k, v))
        at, ends = torch.arange(t), torch.arange(blocks) * self.block + self.block - 1
        seen = ends[None] <= at[:, None]
        scores = (torch.einsum("bhid,bhjd->bhij", q, ck) * scale).masked_fill(~seen, -1e4)
        p = scores.softmax(-1) * seen
        compressed = p @ cv
        rank = (p.sum(1) + F.one_hot(at // self.block, blocks) * 10.0)
        chosen = torch.zeros_like(rank).scatter(-1, rank.topk(self.top, -1).indices, 1.0).bool()
        fine = chosen.repeat_interleave(self.block, dim=-1).unsqueeze(1) & (at[None] <= at[:, None])
        s = (q @ k.mT) * scale
        selected = s.masked_fill(~fine, -torch.finfo(torch.float32).max).softmax(-1) @ v
        near = (at[None] <= at[:, None]) & (at[:, None] - at[None] < self.window)
        local = F.scaled_dot_product_attention(q, k, v, attn_mask=near)
        g = self.gates(x).sigmoid().view(n, t, 3, self.heads).permute(2, 0, 3, 1).unsqueeze(-1)
        y = (g * torch.stack([compressed, selected, local])).sum(0).transpose(1, 2).reshape(n, t, c)
        return F.cross_entropy(self.head(x + self.o(y)).transpose(1, 2), targets)


class Deeper(nn.Module):
    """Mixture of depths: the best tokens of a sequence go through a block, weighed, and are scattered back."""

    def __init__(self, width=12, keep=3):
        super().__init__()
        self.keep, self.embed, self.router = keep, nn.Embedding(WORDS, width), nn.Linear(width, 1, bias=False)
        self.qkv, self.block, self.head = nn.Linear(width, 3 * width), mlp(width, 24, width), nn.Linear(width, WORDS)

    def forward(self, x, targets):
        x = self.embed(x)
        n, t, c = x.shape
        logits = self.router(x).squeeze(-1)
        weights, chosen = torch.topk(logits, self.keep, dim=1, sorted=False)
        at = chosen.unsqueeze(-1).expand(-1, -1, c)
        y = torch.gather(x, 1, at)
        y = y + self.block(F.layer_norm(y, (c,)))
        x = x.scatter_add(1, at, y * weights.sigmoid().unsqueeze(-1))
        aux = F.binary_cross_entropy_with_logits(logits, torch.zeros_like(logits).scatter(1, chosen, 1.0))
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten()) + 0.01 * aux


class Tiny(nn.Module):
    """Tiny recursive model: two states refined in turns, all but the last without gradients, halting told by whether
    the answer is right, a stable softmax."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.head, self.q = nn.Embedding(WORDS, width), nn.Linear(width, WORDS), nn.Linear(width, 2)
        self.net, self.mix = mlp(width, 24, width, act=nn.SiLU), mlp(6, 12, 6)
        self.register_buffer("y0", torch.randn(width) * 0.1)
        self.register_buffer("z0", torch.randn(width) * 0.1)

    def step(self, x):
        x = norm(x + self.mix(x.mT).mT)
        return norm(x + self.net(x))

    def turn(self, x, y, z):
        for _ in range(2):
            z = self.step(x + y + z)
        return self.step(y + z), z

    def forward(self, x, targets):
        x = self.embed(x)
        y, z = self.y0.expand_as(x), self.z0.expand_as(x)
        with torch.no_grad():
            for _ in range(2):
                y, z = self.turn(x, y, z)
        y, z = self.turn(x, y, z)
        logits = self.head(y)
        s = torch.where(logits < 0, 1 / (1 - logits + 1e-30), logits + 1)
        logp = torch.log(s / torch.sum(s, dim=-1, keepdim=True))
        loss = -torch.gather(logp, dim=-1, index=targets.to(torch.long).unsqueeze(-1)).squeeze(-1)
        right = (logits.argmax(-1) == targets).sum(-1) == targets.shape[-1]
        halt = F.binary_cross_entropy_with_logits(self.q(y[:, 0])[..., 0], right.float(), reduction="sum")
        return loss.sum(-1).mean() + 0.5 * halt / len(x)


class Blocks(nn.Module):
    """Block diffusion: noised words beside the clean ones, a mask by blocks; what was hidden counts by its rate."""

    def __init__(self, width=12, heads=2, block=4):
        super().__init__()
        self.heads, self.block, self.embed = heads, block, nn.Embedding(WORDS + 1, width)
        self.qkv, self.ff, self.head = nn.Linear(width, 3 * width), mlp(width, 24, width), nn.Linear(width, WORDS)

    def forward(self, x0, rate, draw):
        n, t = x0.shape
        p = (0.1 + 0.8 * rate).repeat_interleave(self.block, dim=1)
        hidden = draw < p
        xt = torch.where(hidden, WORDS, x0)
        x = self.embed(torch.cat((xt, x0), dim=-1))
        q_idx, kv_idx = torch.arange(2 * t)[:, None], torch.arange(2 * t)[None]
        q0, k0 = q_idx >= t, kv_idx >= t
        bq, bk = (torch.where(i >= t, (i - t) // self.block, i // self.block) for i in (q_idx, kv_idx))
        mask = ((bq == bk) & (q0 == k0)) | ((bq > bk) & k0 & ~q0) | ((bq >= bk) & k0 & q0)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(norm(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = (x + self.ff(norm(x)))[:, :t]
        logp = self.head(x).log_softmax(-1)
        nll = -torch.gather(logp, -1, x0[:, :, None]).squeeze(-1)
        return (nll * hidden / p).sum() / (n * t)


class Channels(nn.Module):
    """Kimi Linear: a delta rule whose decay is of each channel, a low-rank gate, a norm that a sigmoid gates; short
    convolutions by shifts."""

    def __init__(self, width=12, heads=2):
        super().__init__()
        self.heads, self.embed, self.head = heads, nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.qkv, self.taps = nn.Linear(width, 3 * width, bias=False), nn.Parameter(torch.randn(3, 3 * width) * 0.4)
        self.f = nn.Sequential(nn.Linear(width, 4, bias=False), nn.Linear(4, width, bias=False))
        self.g = nn.Sequential(nn.Linear(width, 4, bias=False), nn.Linear(4, width))
        self.b, self.A_log = nn.Linear(width, heads), nn.Parameter(torch.zeros(1, 1, heads, 1))
        self.dt_bias, self.o_norm, self.o = nn.Parameter(torch.zeros(width)), nn.RMSNorm(width // heads), nn.Linear(
            width, width)

    def forward(self, x, targets):
        x = self.embed(x)
        n, t, c = x.shape
        y = self.qkv(x)
        y = F.silu(sum(self.taps[i] * F.pad(y, (0, 0, i, 0))[:, :t] for i in range(3)))
        q, k, v = (z.view(n, t, self.heads, -1) for z in y.chunk(3, -1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        g = -self.A_log.exp() * F.softplus((self.f(x) + self.dt_bias).view_as(q))
        beta = self.b(x).sigmoid()
        s, out = x.new_zeros(n, self.heads, c // self.heads, c // self.heads), []
        for qi, ki, vi, gi, bi in zip(*(z.unbind(1) for z in (q, k, v, g, beta))):
            s = s * gi[..., None].exp()
            s = s + torch.einsum("b h k, b h v -> b h k v", bi[..., None] * ki, vi - (ki[..., None] * s).sum(-2))
            out.append(torch.einsum("b h k, b h k v -> b h v", qi, s))
        y = self.o_norm(torch.stack(out, dim=1)) * torch.sigmoid(self.g(x).view(n, t, self.heads, -1))
        return F.cross_entropy(self.head(x + self.o(y.flatten(2))).flatten(0, 1), targets.flatten())


class Ternary(nn.Module):
    """BitNet b1.58: weights of three values, activations of 8 bits, straight through."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.up, self.down, self.head = nn.Embedding(WORDS, width), nn.Linear(width, 24, bias=False), \
            nn.Linear(24, width, bias=False), nn.Linear(width, WORDS)

    def linear(self, f, x):
        x = norm(x)
        scale = 127.0 / x.abs().max(dim=-1, keepdim=True).values.clamp_(min=1e-5)
        xq = x + ((x * scale).round().clamp_(-128, 127) / scale - x).detach()
        w = f.weight
        scale = 1.0 / w.abs().mean().clamp_(min=1e-5)
        wq = w + ((w * scale).round().clamp_(-1, 1) / scale - w).detach()
        return F.linear(xq, wq)

    def forward(self, x, targets):
        x = self.embed(x)
        x = x + self.linear(self.down, F.relu(self.linear(self.up, x)) ** 2)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


class Labelled(nn.Module):
    """transformers' way: masks of padding made four-dimensional, positions by sums, keys repeated, labels= moved
    within, -100 of which count for nothing; frozen but for vectors between matrices that nobody trains (VeRA)."""

    def __init__(self, width=16, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, self.embed_tokens = heads, groups, nn.Embedding(WORDS, width, padding_idx=0)
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, 8), nn.Linear(width, 8)
        self.o, self.lm_head = nn.Linear(width, width, bias=False), nn.Linear(width, WORDS, bias=False)
        self.requires_grad_(False)
        self.register_buffer("A", torch.randn(3, width) * 0.3)
        self.register_buffer("B", torch.randn(width, 3) * 0.3)
        self.d, self.b = nn.Parameter(torch.full((3,), 0.1)), nn.Parameter(torch.randn(width) * 0.2)
        self.register_buffer("inv_freq", 1.0 / 100 ** (torch.arange(0, 4, 2).float() / 4), persistent=False)

    def forward(self, input_ids=None, attention_mask=None, labels=None):
        x = self.embed_tokens(input_ids)
        n, t, _ = x.shape
        position_ids = attention_mask.long().cumsum(-1) - 1
        position_ids.masked_fill_(attention_mask == 0, 1)
        freqs = (self.inv_freq[None, :, None].expand(n, -1, 1) @ position_ids[:, None, :].float()).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos().unsqueeze(1), emb.sin().unsqueeze(1)
        low = torch.finfo(x.dtype).min
        causal = torch.triu(torch.full((t, t), low), diagonal=1)[None, None].expand(n, 1, -1, -1)
        mask = causal.masked_fill((attention_mask == 0)[:, None, None, :], low)
        q = self.q(x) + self.b * ((x @ self.A.T * self.d) @ self.B.T)
        q, k, v = (y.view(n, t, -1, 4).transpose(1, 2) for y in (q, self.k(x), self.v(x)))
        q, k = (y * cos + torch.cat((-y[..., 2:], y[..., :2]), dim=-1) * sin for y in (q, k))
        k, v = (y[:, :, None].expand(n, self.groups, 2, t, 4).reshape(n, self.heads, t, 4) for y in (k, v))
        w = F.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.5 + mask, dim=-1)
        h = x + self.o(torch.matmul(w, v).transpose(1, 2).contiguous().reshape(n, t, -1))
        logits = self.lm_head(h).float()
        labels = F.pad(labels, (0, 1), value=-100)
        shift = labels[..., 1:].contiguous()
        loss = F.cross_entropy(logits.view(-1, WORDS), shift.view(-1), ignore_index=-100, reduction="mean")
        return {"loss": loss, "logits": logits}


MODELS = {
    "nanochat": lm(Chat), "Qwen3-Next": lm(Next), "Gemma 3n": lm(Alternating), "DeepSeek-V3.2, indexed": lm(Indexed),
    "native sparse attention": lm(Native), "mixture of depths": lm(Deeper),
    "block diffusion": lambda: (Blocks(), (ids(8, below=WORDS), torch.rand(BATCH, 2), torch.rand(BATCH, 8)),
                                {"own": True}),
    "Kimi Linear": lm(Channels), "BitNet b1.58": lm(Ternary),
    "labels=, VeRA": lambda: (Labelled(), (ids(7, below=WORDS), (torch.arange(7) < torch.randint(
        3, 8, (BATCH, 1))).long(), ids(7, below=WORDS)), {"below": {"attention_mask": 2}, "own": True})}
REFUSED = {
    "tiny recursive model": lambda: (Tiny(), (ids(6, below=WORDS), ids(6, below=WORDS)), {})}
