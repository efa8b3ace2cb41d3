# Models that the other lists lack, as people write them: language and sound.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- language ----

class Norm(nn.Module):
    """Gemma's: one more than the weight, in float32."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1.0 + self.weight.float())).type_as(x)


def rotate_half(x):
    a, b = x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-b, a), dim=-1)


class Absorbed(nn.Module):
    """MLA as it is served: scores against the latents themselves, the products of keys and values moved to the queries
    and the outputs; rotary places in a head that all share."""

    def __init__(self, words=40, width=16, heads=2, rank=6, nope=4, rope=4, value=4):
        super().__init__()
        self.heads, self.nope, self.rope, self.rank, self.value = heads, nope, rope, rank, value
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.wq_a, self.q_norm = nn.Linear(width, 8, bias=False), nn.RMSNorm(8)
        self.wq_b = nn.Linear(8, heads * (nope + rope), bias=False)
        self.wkv_a, self.kv_norm = nn.Linear(width, rank + rope, bias=False), nn.RMSNorm(rank)
        self.wkv_b = nn.Linear(rank, heads * (nope + value), bias=False)
        self.wo, self.scale = nn.Linear(heads * value, width, bias=False), (nope + rope) ** -0.5
        freqs = torch.outer(torch.arange(16).float(), 1.0 / 10000 ** (torch.arange(0, rope, 2).float() / rope))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(freqs), freqs), persistent=False)

    def rotary(self, x):
        y = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
        freqs = self.freqs_cis[:x.shape[1]].view(1, y.size(1), 1, y.size(-1))
        return torch.view_as_real(y * freqs).flatten(3).type_as(x)

    def attend(self, x):
        n, t, _ = x.size()
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(n, t, self.heads, self.nope + self.rope)
        q_nope, q_pe = torch.split(q, [self.nope, self.rope], dim=-1)
        kv, k_pe = torch.split(self.wkv_a(x), [self.rank, self.rope], dim=-1)
        q_pe, k_pe = self.rotary(q_pe), self.rotary(k_pe.unsqueeze(2)).squeeze(2)
        wkv_b, kv = self.wkv_b.weight.view(self.heads, -1, self.rank), self.kv_norm(kv)
        q_nope = torch.einsum("bshd,hdc->bshc", q_nope, wkv_b[:, :self.nope])
        scores = (torch.einsum("bshc,btc->bsht", q_nope, kv) + torch.einsum("bshr,btr->bsht", q_pe, k_pe)) * self.scale
        scores = scores + torch.full((t, t), float("-inf")).triu_(1).unsqueeze(1)
        scores = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
        y = torch.einsum("bshc,hdc->bshd", torch.einsum("bsht,btc->bshc", scores, kv), wkv_b[:, -self.value:])
        return self.wo(y.flatten(2))

    def forward(self, ids, targets):
        x = self.embed(ids)
        return F.cross_entropy(self.head(x + self.attend(x)).flatten(0, 1), targets.flatten())


class Selective(nn.Module):
    """Mamba's block by a loop over steps, as its reference has it."""

    def __init__(self, width=12, state=4, rank=2, kernel=4):
        super().__init__()
        self.inner, self.state, self.rank, self.kernel = 2 * width, state, rank, kernel
        self.in_proj = nn.Linear(width, 2 * self.inner, bias=False)
        self.conv1d = nn.Conv1d(self.inner, self.inner, kernel, groups=self.inner, padding=kernel - 1)
        self.x_proj = nn.Linear(self.inner, rank + 2 * state, bias=False)
        self.dt_proj, self.out_proj = nn.Linear(rank, self.inner), nn.Linear(self.inner, width, bias=False)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float().repeat(self.inner, 1)))
        self.D = nn.Parameter(torch.ones(self.inner))

    def forward(self, x):
        n, t, _ = x.shape
        x, z = self.in_proj(x).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[..., :t]).transpose(1, 2)
        dt, b, c = torch.split(self.x_proj(x), [self.rank, self.state, self.state], dim=-1)
        delta, a = F.softplus(self.dt_proj(dt)), -torch.exp(self.A_log.float())
        da = torch.exp(torch.einsum("bld,dn->bldn", delta, a))
        db = torch.einsum("bld,bln,bld->bldn", delta, b, x)
        h, ys = torch.zeros(n, self.inner, self.state, device=x.device, dtype=x.dtype), []
        for i in range(t):
            h = da[:, i] * h + db[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, c[:, i]))
        return self.out_proj((torch.stack(ys, dim=1) + x * self.D) * F.silu(z))


class Shared(nn.Module):
    """DeepSeek-V3's experts: sigmoids, a bias that only chooses, groups left out, a shared expert beside them."""

    def __init__(self, width=12, experts=4, top=2, inner=8):
        super().__init__()
        self.top, self.weight = top, nn.Parameter(torch.randn(experts, width) * 0.3)
        self.register_buffer("bias", torch.linspace(-0.1, 0.1, experts))
        self.experts = nn.ModuleList(self.swiglu(width, inner) for _ in range(experts))
        self.shared = self.swiglu(width, 2 * inner)

    @staticmethod
    def swiglu(width, inner):
        return nn.ModuleDict({"w1": nn.Linear(width, inner, bias=False), "w2": nn.Linear(inner, width, bias=False),
                              "w3": nn.Linear(width, inner, bias=False)})

    @staticmethod
    def run(expert, x):
        return expert["w2"](F.silu(expert["w1"](x)) * expert["w3"](x))

    def forward(self, x):
        shape, x = x.size(), x.view(-1, x.size(-1))
        scores = F.linear(x, self.weight).sigmoid()
        indices = torch.topk(scores + self.bias, self.top, dim=-1)[1]
        weights = scores.gather(1, indices)
        weights = weights / weights.sum(dim=-1, keepdim=True) * 2.5
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            idx, top = torch.where(indices == i)
            y[idx] += self.run(expert, x[idx]) * weights[idx, top, None]
        return (y + self.run(self.shared, x)).view(shape)


class Hybrid(nn.Module):
    """Jamba: states, then attention, each followed by experts."""

    def __init__(self, words=40, width=12, heads=2):
        super().__init__()
        self.heads, self.words, self.head = heads, nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.mamba, self.qkv, self.out = Selective(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.experts = nn.ModuleList(Shared(width) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(5))

    def attend(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c))

    def forward(self, ids, targets):
        x = self.words(ids)
        for i, mix in enumerate((self.mamba, self.attend)):
            x = x + mix(self.norms[2 * i](x))
            x = x + self.experts[i](self.norms[2 * i + 1](x))
        return F.cross_entropy(self.head(self.norms[4](x)).view(-1, 40), targets.view(-1), label_smoothing=0.1)


class Windows(nn.Module):
    """Gemma 3: windows and whole sequences in turns, each with rotary places of its own base; norms on both sides."""

    def __init__(self, words=40, width=16, heads=4, groups=2, layers=3, window=3):
        super().__init__()
        self.heads, self.groups, self.size, self.window = heads, groups, width // heads, window
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.q = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.kv = nn.ModuleList(nn.Linear(width, 2 * groups * self.size, bias=False) for _ in range(layers))
        self.o = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.ModuleList(Norm(width) for _ in range(4)) for _ in range(layers))
        self.q_norm, self.k_norm, self.norm = Norm(self.size), Norm(self.size), Norm(width)
        self.register_buffer("normalizer", torch.tensor(width ** 0.5), persistent=False)

    def places(self, t, base):
        inv = 1.0 / base ** (torch.arange(0, self.size, 2, dtype=torch.int64).float() / self.size)
        emb = torch.outer(torch.arange(t).float(), inv)
        emb = torch.cat((emb, emb), dim=-1)
        return emb.cos()[None, None], emb.sin()[None, None]

    def attend(self, i, x, mask, cos, sin):
        n, t, _ = x.shape
        q = self.q_norm(self.q[i](x).view(n, t, self.heads, self.size).transpose(1, 2))
        k, v = self.kv[i](x).view(n, t, 2 * self.groups, self.size).transpose(1, 2).chunk(2, dim=1)
        k = self.k_norm(k)
        q, k = (y * cos + rotate_half(y) * sin for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.25, enable_gqa=True)
        return self.o[i](y.transpose(1, 2).contiguous().view(n, t, -1))

    def forward(self, ids, targets):
        t, x = ids.shape[1], self.embed(ids) * self.normalizer
        causal = torch.tril(torch.ones(t, t, dtype=torch.bool))
        near = causal & ~torch.tril(torch.ones(t, t, dtype=torch.bool), diagonal=-self.window)
        for i, (a, b, c, d) in enumerate(self.norms):
            whole = (i + 1) % 3 == 0
            cos, sin = self.places(t, 1e6 if whole else 1e4)
            mask = (causal if whole else near)[None, None] & (ids != 0)[:, None, None]
            mask = mask | torch.eye(t, dtype=torch.bool)
            x = x + b(self.attend(i, a(x), mask, cos, sin))
            gate, up = self.up[i](c(x)).chunk(2, dim=-1)
            x = x + d(self.down[i](F.gelu(gate, approximate="tanh") * up))
        logits = F.linear(self.norm(x), self.embed.weight)
        logits = torch.tanh(logits / 30.0) * 30.0
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=0)


class Forgetful(nn.Module):
    """The forgetting transformer: gates that are summed up over what lies between are biases of the scores; YaRN's
    rotary places in part of each head, in every second layer."""

    def __init__(self, words=40, width=16, heads=2, layers=2, factor=4.0):
        super().__init__()
        self.heads, self.words, self.head = heads, nn.Embedding(words, width), nn.Linear(width, words)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(width, heads) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        inv = 1.0 / 10000 ** (torch.arange(0, 4, 2).float() / 4)
        low, high = (4 * math.log(8 / (b * 2 * math.pi)) / (2 * math.log(10000)) for b in (32, 1))
        ramp = ((torch.arange(2).float() - low) / max(high - low, 1e-3)).clamp(0, 1)
        self.register_buffer("inv_freq", inv / factor * ramp + inv * (1 - ramp), persistent=False)
        self.mscale = 0.1 * math.log(factor) + 1.0

    def turned(self, x):
        freqs = torch.einsum("i,j->ij", torch.arange(x.shape[2], dtype=torch.float32), self.inv_freq)
        cos, sin = freqs.cos() * self.mscale, freqs.sin() * self.mscale
        y, rest = x[..., :4], x[..., 4:]
        a, b = y[..., ::2], y[..., 1::2]
        y = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
        return torch.cat((y, rest), dim=-1)

    def forward(self, ids, targets):
        x = self.words(ids)
        n, t, c = x.shape
        for i, (qkv, gate, out) in enumerate(zip(self.qkv, self.gate, self.out)):
            q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in qkv(x).chunk(3, -1))
            if i % 2 == 0:
                q, k = self.turned(q), self.turned(k)
            kept = F.logsigmoid(gate(x).float()).transpose(1, 2).cumsum(-1)
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + kept[..., :, None] - kept[..., None, :]
            scores = scores.masked_fill(torch.triu(torch.ones(t, t), 1).bool(), torch.finfo(scores.dtype).min)
            x = x + out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))
        return F.cross_entropy(self.head(x).transpose(1, 2), targets)


class Next(nn.Module):
    """DeepSeek-V3's heads in a chain: the state and the next token's row, normed and joined, through a block, to the
    same head."""

    def __init__(self, words=40, width=16, heads=2, depth=2):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(
            width, heads, 2 * width, 0.0, F.silu, batch_first=True, norm_first=True) for _ in range(depth + 1))
        self.join = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(depth))
        self.norms, self.depth = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * depth + 1)), depth

    def forward(self, tokens, targets):
        rows = self.words(tokens)
        t = tokens.size(1) - self.depth
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        h = self.blocks[0](rows[:, :t], src_mask=mask, is_causal=True)
        loss = F.cross_entropy(self.head(self.norms[0](h)).flatten(0, 1), targets[:, 0].flatten())
        for k in range(self.depth):
            a, b = self.norms[2 * k + 1](h), self.norms[2 * k + 2](rows[:, k + 1:k + 1 + t])
            h = self.blocks[k + 1](self.join[k](torch.cat([a, b], dim=-1)), src_mask=mask, is_causal=True)
            logits = self.head(self.norms[0](h))
            loss = loss + 0.3 / self.depth * F.cross_entropy(logits.flatten(0, 1), targets[:, k + 1].flatten())
        return loss


class Bytes(nn.Module):
    """MegaByte: a model of patches, and one within each patch, whose batch is samples times patches."""

    def __init__(self, words=32, width=8, patch=4, heads=2):
        super().__init__()
        self.patch, self.width, self.heads = patch, width, heads
        self.far, self.near = nn.Embedding(words, width), nn.Embedding(words, width)
        self.start, self.before = nn.Parameter(torch.randn(1, 1, patch * width)), nn.Parameter(torch.randn(width))
        self.whole, self.inner = (nn.ModuleDict({"qkv": nn.Linear(c, 3 * c), "out": nn.Linear(c, c), "norm":
                                                 nn.LayerNorm(c)}) for c in (patch * width, width))
        self.head = nn.Linear(width, words)

    def attend(self, block, x):
        n, t, c = x.shape
        q, k, v = block["qkv"](block["norm"](x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + block["out"](y.transpose(1, 2).reshape(n, t, c))

    def forward(self, tokens):
        n, t = tokens.shape
        x = self.far(tokens).reshape(n, t // self.patch, self.patch * self.width)
        x = torch.cat([self.start.expand(n, -1, -1), x[:, :-1]], dim=1)
        x = self.attend(self.whole, x).reshape(-1, self.patch, self.width)
        y = self.near(tokens).reshape(-1, self.patch, self.width)
        y = torch.cat([self.before.expand(len(y), 1, -1), y[:, :-1]], dim=1)
        y = self.attend(self.inner, x + y)
        return F.cross_entropy(self.head(y).reshape(n, t, -1).transpose(1, 2), tokens)


class GatedDelta(nn.Module):
    """Qwen3-Next's linear attention in chunks, a triangle solved row by row, as transformers has it."""

    def __init__(self, words=40, width=8, heads=2, chunk=4):
        super().__init__()
        self.heads, self.chunk, self.words = heads, chunk, nn.Embedding(words, width)
        self.qkv, self.ba, self.z = (nn.Linear(width, k, bias=False) for k in (3 * width, 2 * heads, width))
        self.A_log, self.dt_bias = nn.Parameter(torch.linspace(0.1, 1, heads).log()), nn.Parameter(torch.ones(heads))
        self.norm, self.out = nn.RMSNorm(width // heads), nn.Linear(width, words)

    def rule(self, q, k, v, g, beta):
        q, k, v, beta, g = (x.transpose(1, 2).contiguous().to(torch.float32) for x in (q, k, v, beta, g))
        n, h, t, d = k.shape
        q = q * d ** -0.5
        v_beta, k_beta = v * beta.unsqueeze(-1), k * beta.unsqueeze(-1)
        q, k, v, k_beta, v_beta = (x.reshape(n, h, -1, self.chunk, x.shape[-1]) for x in (q, k, v, k_beta, v_beta))
        g = g.reshape(n, h, -1, self.chunk).cumsum(dim=-1)
        mask = torch.triu(torch.ones(self.chunk, self.chunk, dtype=torch.bool), diagonal=0)
        decay = ((g.unsqueeze(-1) - g.unsqueeze(-2)).tril().exp().float()).tril()
        attn = -((k_beta @ k.transpose(-1, -2)) * decay).masked_fill(mask, 0)
        for i in range(1, self.chunk):
            row, sub = attn[..., i, :i].clone(), attn[..., :i, :i].clone()
            attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)
        attn = attn + torch.eye(self.chunk, dtype=attn.dtype)
        v, k_decay = attn @ v_beta, attn @ (k_beta * g.exp().unsqueeze(-1))
        state, out = torch.zeros(n, h, d, d).to(v), torch.zeros_like(v)
        mask = torch.triu(torch.ones(self.chunk, self.chunk, dtype=torch.bool), diagonal=1)
        for i in range(t // self.chunk):
            q_i, k_i, v_i = q[:, :, i], k[:, :, i], v[:, :, i]
            inner = (q_i @ k_i.transpose(-1, -2) * decay[:, :, i]).masked_fill_(mask, 0)
            v_new = v_i - k_decay[:, :, i] @ state
            out[:, :, i] = (q_i * g[:, :, i, :, None].exp()) @ state + inner @ v_new
            state = state * g[:, :, i, -1, None, None].exp() + (
                k_i * (g[:, :, i, -1, None] - g[:, :, i]).exp()[..., None]).transpose(-1, -2) @ v_new
        return out.reshape(n, h, -1, d)[:, :, :t].transpose(1, 2).contiguous()

    def forward(self, ids, targets):
        x = self.words(ids)
        n, t, c = x.shape
        q, k, v = (y.reshape(n, t, self.heads, -1) for y in self.qkv(x).chunk(3, -1))
        b, a = self.ba(x).chunk(2, -1)
        g = -self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias)
        q, k = (y * torch.rsqrt((y * y).sum(dim=-1, keepdim=True) + 1e-6) for y in (q, k))
        y = self.norm(self.rule(q, k, v, g, b.sigmoid())) * F.silu(self.z(x).view(n, t, self.heads, -1))
        return F.cross_entropy(self.out(x + y.reshape(n, t, c)).flatten(0, 1), targets.flatten())


# ---- sound ----

class Transduced(nn.Module):
    """RNN-T: a joiner of sounds and words, and its loss by a loop over the lattice's diagonals."""

    def __init__(self, words=6, width=8):
        super().__init__()
        self.encoder, self.table = nn.LSTM(5, width, batch_first=True), nn.Embedding(words, width)
        self.predictor, self.joiner = nn.GRU(width, width, batch_first=True), nn.Linear(width, words)

    def forward(self, x, labels):
        f, n = self.encoder(x)[0], len(x)
        g = self.predictor(F.pad(self.table(labels), (0, 0, 1, 0)))[0]
        logp = self.joiner(torch.tanh(f.unsqueeze(2) + g.unsqueeze(1))).log_softmax(-1)
        blank = logp[..., 0]
        emit = logp[:, :, :-1].gather(3, labels[:, None, :, None].expand(-1, logp.shape[1], -1, 1)).squeeze(3)
        alpha = [torch.zeros(n).to(logp)]
        for u in range(labels.shape[1]):
            alpha.append(alpha[-1] + emit[:, 0, u])
        for t in range(1, logp.shape[1]):
            new = [alpha[0] + blank[:, t - 1, 0]]
            for u in range(1, labels.shape[1] + 1):
                new.append(torch.logaddexp(alpha[u] + blank[:, t - 1, u], new[u - 1] + emit[:, t, u - 1]))
            alpha = new
        return -(alpha[-1] + blank[:, -1, -1]).mean()


class Snake(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


class Spectra(nn.Module):
    """DAC: snakes, strided convolutions both ways, and a loss of magnitudes of several window sizes by torch.stft."""

    def __init__(self, width=4):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.net = nn.Sequential(norm(nn.Conv1d(1, width, 7, padding=3)), Snake(width),
                                 norm(nn.Conv1d(width, 2 * width, 4, stride=2, padding=1)), Snake(2 * width),
                                 norm(nn.ConvTranspose1d(2 * width, width, 4, stride=2, padding=1)), Snake(width),
                                 norm(nn.Conv1d(width, 1, 7, padding=3)), nn.Tanh())

    def forward(self, x):
        y, loss = self.net(x), 0.0
        for size in (16, 8):
            window = torch.hann_window(size).to(x.dtype)
            a, b = (torch.stft(z.squeeze(1), size, size // 4, window=window, return_complex=True).abs() for z in (x, y))
            loss = loss + F.l1_loss(a, b) + F.l1_loss(a.clamp(1e-5).pow(2).log10(), b.clamp(1e-5).pow(2).log10())
        return loss + 15.0 * F.l1_loss(y, x)


class Stems(nn.Module):
    """Demucs: gated convolutions down and up with skips, a recurrence of two directions at the bottom."""

    def __init__(self, width=4, depth=2, stems=2):
        super().__init__()
        self.down, self.up, inside, self.stems = nn.ModuleList(), nn.ModuleList(), 1, stems
        for i in range(depth):
            out = width * 2 ** i
            self.down.append(nn.Sequential(nn.Conv1d(inside, out, 8, 4, 2), nn.GroupNorm(2, out), nn.GELU(),
                                           nn.Conv1d(out, 2 * out, 1), nn.GLU(dim=1)))
            self.up.insert(0, nn.Sequential(nn.Conv1d(out, 2 * out, 3, padding=1), nn.GLU(dim=1),
                                            nn.ConvTranspose1d(out, inside if i else stems, 8, 4, 2)))
            inside = out
        self.lstm, self.back = nn.LSTM(inside, inside, 2, bidirectional=True), nn.Linear(2 * inside, inside)

    def forward(self, mix, sources):
        mean, std = mix.mean(dim=(1, 2), keepdim=True), mix.std(dim=(1, 2), keepdim=True)
        x, kept = (mix - mean) / (1e-5 + std), []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        y = self.lstm(x.permute(2, 0, 1))[0]
        x = x + self.back(y).permute(1, 2, 0)
        for i, layer in enumerate(self.up):
            x = layer(x + kept.pop(-1)[..., :x.shape[-1]])
            x = F.gelu(x) if i + 1 < len(self.up) else x
        return F.l1_loss(x * std + mean, sources)


class Spoken(nn.Module):
    """FastSpeech 2: phones are repeated as their durations say, pitch is told, put into bins, and added by a table."""

    def __init__(self, phones=20, width=8, bins=6):
        super().__init__()
        self.words, self.pitches = nn.Embedding(phones, width), nn.Embedding(bins, width)
        self.encoder = nn.TransformerEncoderLayer(width, 2, 16, 0.0, batch_first=True)
        self.length, self.pitch = (nn.ModuleList([nn.Conv1d(width, width, 3, padding=1), nn.LayerNorm(width),
                                                  nn.Linear(width, 1)]) for _ in range(2))
        self.decoder = nn.TransformerEncoderLayer(width, 2, 16, 0.0, batch_first=True)
        self.mel = nn.Linear(width, 5)
        self.register_buffer("edges", torch.linspace(-1, 1, bins - 1))

    def told(self, layers, x):
        return layers[2](layers[1](F.relu(layers[0](x.transpose(1, 2))).transpose(1, 2))).squeeze(-1)

    def forward(self, phones, durations, pitch, alignment, mel):
        x = self.encoder(self.words(phones), src_key_padding_mask=phones == 0)
        length, told = self.told(self.length, x), self.told(self.pitch, x)
        x = x + self.pitches(torch.bucketize(pitch, self.edges))
        x = torch.gather(x, 1, alignment.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        out = self.mel(self.decoder(x))
        kept = (phones != 0).float()
        loss = F.mse_loss(length, torch.log1p(durations), reduction="none") + F.mse_loss(told, pitch, reduction="none")
        return F.l1_loss(out, mel) + (loss * kept).sum() / kept.sum()


def lm(make):
    return lambda: (make(), (ids(8, below=40), ids(8, below=40)), {})


MODELS = {
    "MLA, absorbed": lm(Absorbed), "Jamba": lm(Hybrid), "Gemma 3, windows": lm(Windows),
    "forgetting transformer": lm(Forgetful),
    "tokens ahead, in a chain": lambda: (Next(), (ids(8, below=40), ids(3, 6, below=40)), {}),
    "MegaByte": lambda: (Bytes(), (ids(12, below=32),), {}), "gated DeltaNet, chunks": lm(GatedDelta),
    "RNN-T": lambda: (Transduced(), (reals(5, 5), ids(3, below=5)), {}),
    "DAC, spectra": lambda: (Spectra(), (reals(1, 64),), {}),
    "Demucs": lambda: (Stems(), (reals(1, 64), reals(2, 64)), {}),
    "FastSpeech 2": lambda: (Spoken(), (ids(6, below=20), torch.rand(BATCH, 6) * 4, reals(6), ids(10, below=6),
                                        reals(10, 5)), {})}
