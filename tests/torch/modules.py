# Modules as people write them in PyTorch: language models and blocks of them, a U-Net, volumes, recommendations.
# Each of MODELS makes a module, its inputs, and perhaps options of the export.
# SPDX-License-Identifier: Apache-2.0
from pytorch import F, np, torch  # says SKIP and ends without PyTorch

nn = torch.nn
CLASSES, BATCH, WORDS, PLACES = 7, 8, 61, 12


# ---- language ----

class GPT(nn.Module):
    """GPT as people write it: the head is the embedding, the loss is its own."""

    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(WORDS, width), "wpe": nn.Embedding(2 * PLACES, width),
                                          "h": nn.ModuleList(GPTBlock(width, heads) for _ in range(layers)),
                                          "ln_f": nn.LayerNorm(width)})
        self.lm_head = nn.Linear(width, WORDS, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, ids, targets):
        places = torch.arange(ids.size(1), device=ids.device)
        x = self.transformer.wte(ids) + self.transformer.wpe(places)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


class GPTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, c = x.size()
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2)
                   for y in self.c_attn(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(n, t, c))
        return x + self.mlp(self.ln_2(x))


class BERT(nn.Module):
    """HuggingFace's way: embeddings of words, places and types; an additive mask from ids' own; a layer with
    query, key and value apart; words predicted by the embedding's weight and a bias."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.width, self.heads = width, heads
        self.word_embeddings, self.position_embeddings = nn.Embedding(WORDS, width), nn.Embedding(40, width)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm, self.output_norm = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.intermediate, self.output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.transform, self.transform_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.decoder = nn.Linear(width, WORDS)
        self.decoder.weight = self.word_embeddings.weight
        self.register_buffer("position_ids", torch.arange(40).expand((1, -1)))
        self.register_buffer("token_type_ids", torch.zeros((1, 40), dtype=torch.long))

    def transpose_for_scores(self, x):
        return x.view(*x.size()[:-1], self.heads, self.width // self.heads).permute(0, 2, 1, 3)

    def forward(self, input_ids, attention_mask):
        n, t = input_ids.size()
        mask = (1.0 - attention_mask[:, None, None, :]) * -10000.0
        x = self.word_embeddings(input_ids) + self.position_embeddings(self.position_ids[:, :t])
        x = self.LayerNorm(x + self.token_type_embeddings(self.token_type_ids[:, :t].expand(n, t)))
        q, k, v = (self.transpose_for_scores(m(x)) for m in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (self.width // self.heads) ** 0.5 + mask
        y = torch.matmul(nn.functional.softmax(scores, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        x = self.attention_norm(self.dense(y.view(*y.size()[:-2], self.width)) + x)
        x = self.output_norm(self.output(F.gelu(self.intermediate(x))) + x)
        return self.decoder(self.transform_norm(F.gelu(self.transform(x))))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(width)), 1e-6

    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True) if x.dtype == torch.float32 else x.pow(
            2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.variance_epsilon))


def rotate_half(x):
    x1, x2 = x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


class LLaMA(nn.Module):
    """HuggingFace's way: rotary places, keys shared by two queries' heads, a gated layer, RMSNorm."""

    def __init__(self, width=32, heads=4, shared=2):
        super().__init__()
        self.heads, self.shared, self.head_dim = heads, shared, width // heads
        self.embed_tokens = nn.Embedding(WORDS, width)
        self.q_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(width, shared * self.head_dim, bias=False) for _ in range(2))
        self.gate_proj, self.up_proj = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down_proj, self.lm_head = nn.Linear(3 * width, width, bias=False), nn.Linear(width, WORDS, bias=False)
        self.input_layernorm, self.post_attention_layernorm, self.norm = (RMSNorm(width) for _ in range(3))
        self.register_buffer("inv_freq", 1.0 / (10000.0 ** (torch.arange(0, self.head_dim, 2) / self.head_dim)))

    def rotary(self, x, places):
        frequencies = (self.inv_freq[None, :, None] @ places[:, None, :].to(self.inv_freq.dtype)).transpose(1, 2)
        both = torch.cat((frequencies, frequencies), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    def forward(self, input_ids):
        n, t = input_ids.shape
        x = self.embed_tokens(input_ids)
        cos, sin = self.rotary(x, torch.arange(t).unsqueeze(0))
        y = self.input_layernorm(x)
        q = self.q_proj(y).view(n, t, -1, self.head_dim).transpose(1, 2)
        k = self.k_proj(y).view(n, t, -1, self.head_dim).transpose(1, 2)
        v = self.v_proj(y).view(n, t, -1, self.head_dim).transpose(1, 2)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        q, k = (z * cos + rotate_half(z) * sin for z in (q, k))
        k, v = (z[:, :, None].expand(n, self.shared, self.heads // self.shared, t, self.head_dim).reshape(
            n, self.heads, t, self.head_dim) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, -1)
        x = x + self.o_proj(y)
        y = self.post_attention_layernorm(x)
        x = x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))
        return self.lm_head(self.norm(x))


class T5(nn.Module):
    """An encoder's and a decoder's block: scores without scale, plus an embedding of how far keys are in
    buckets; the decoder looks at the encoder."""

    def __init__(self, width=32, heads=4, buckets=8):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.shared = nn.Embedding(WORDS, width)
        self.relative = nn.ModuleDict({k: nn.Embedding(buckets, heads) for k in ("encoder", "decoder")})
        self.layers = nn.ModuleDict({f"{where}_{what}": nn.Linear(width, width, bias=False)
                                     for where in ("encoder", "decoder", "cross") for what in "qkvo"})
        self.norms = nn.ModuleDict({k: RMSNorm(width) for k in ("encoder", "decoder", "cross", "up", "last")})
        self.wi, self.wo = nn.Linear(width, 64, bias=False), nn.Linear(64, width, bias=False)

    def bias(self, where, t, both):
        """Buckets as T5 has them: exact for the near, by logarithm for the far."""
        apart = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        buckets, n = torch.zeros_like(apart), self.buckets
        if both:
            n //= 2
            buckets = buckets + (apart > 0).long() * n
            apart = apart.abs()
        else:
            apart = -torch.min(apart, torch.zeros_like(apart))
        near = n // 2
        far = near + (torch.log(apart.float() / near) / np.log(128 / near) * (n - near)).long()
        far = torch.min(far, torch.full_like(far, n - 1))
        buckets = buckets + torch.where(apart < near, apart, far)
        return self.relative[where](buckets).permute(2, 0, 1).unsqueeze(0)

    def attend(self, where, x, y, bias, mask=None):
        n = x.shape[0]
        q, k, v = (self.layers[f"{where}_{w}"](z).view(n, -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)
                   for w, z in (("q", x), ("k", y), ("v", y)))
        scores = torch.matmul(q, k.transpose(3, 2))
        if bias is not None:
            scores += bias
        if mask is not None:
            scores = scores + mask
        y = torch.matmul(F.softmax(scores.type_as(scores), dim=-1), v)
        return self.layers[f"{where}_o"](y.transpose(1, 2).contiguous().view(n, -1, x.shape[-1]))

    def forward(self, input_ids, decoder_input_ids):
        x, y = self.shared(input_ids), self.shared(decoder_input_ids)
        z = self.norms["encoder"](x)
        x = x + self.attend("encoder", z, z, self.bias("encoder", x.shape[1], True))
        t = y.shape[1]
        mask = torch.full((t, t), torch.finfo(torch.float32).min).triu(1)[None, None]
        z = self.norms["decoder"](y)
        y = y + self.attend("decoder", z, z, self.bias("decoder", t, False), mask)
        y = y + self.attend("cross", self.norms["cross"](y), x, None)
        y = y + self.wo(F.relu(self.wi(self.norms["up"](y))))
        return F.linear(self.norms["last"](y) * y.shape[-1] ** -0.5, self.shared.weight)


class Recurrent(nn.Module):
    """A language model of recurrent layers, the batch second, as PyTorch's own example has it."""

    def __init__(self, kind, width=24):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.rnn = getattr(nn, kind)(width, width, 2)
        self.decoder.weight = self.encoder.weight

    def forward(self, ids, targets):
        output, _ = self.rnn(self.encoder(ids.t()))
        return F.cross_entropy(self.decoder(output).view(-1, WORDS), targets.t().reshape(-1))


# ---- images, volumes, tables ----

def twice(conv, norm, a, b):
    return nn.Sequential(conv(a, b, 3, padding=1, bias=False), norm(b), nn.ReLU(inplace=True),
                         conv(b, b, 3, padding=1, bias=False), norm(b), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """A class for every pixel; shapes are brought together by padding."""

    def __init__(self, width=8):
        super().__init__()

        def two(a, b):
            return twice(nn.Conv2d, nn.BatchNorm2d, a, b)
        self.first, self.down = two(3, width), nn.ModuleList([two(width, 2 * width), two(2 * width, 4 * width)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
                                   nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.up = nn.ModuleList([two(4 * width, 2 * width), two(2 * width, width)])
        self.out = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        kept = [self.first(x)]
        for m in self.down:
            kept.append(m(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for grow, m in zip(self.grow, self.up):
            x, other = grow(x), kept.pop()
            high, wide = other.size(2) - x.size(2), other.size(3) - x.size(3)
            x = F.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
            x = m(torch.cat([other, x], dim=1))
        return self.out(x)


class Volumes(nn.Module):
    """A three-dimensional network that tells four numbers of a volume."""

    def __init__(self, width=6):
        super().__init__()
        self.features = nn.Sequential(nn.Conv3d(2, width, 3, padding=1), nn.LeakyReLU(0.3), nn.MaxPool3d(2),
                                      nn.Conv3d(width, 2 * width, 3, padding=1), nn.GroupNorm(3, 2 * width),
                                      nn.LeakyReLU(0.3), nn.AvgPool3d(2))
        self.regress = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 27, 16), nn.ELU(), nn.Linear(16, 4))

    def forward(self, x, target):
        return F.mse_loss(self.regress(self.features(x)), target)


class DLRM(nn.Module):
    """Facebook's way: a table for each column of ids, products of all pairs, whether somebody clicks."""

    def __init__(self, tables=(31, 17, 53), width=8):
        super().__init__()
        self.emb_l = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum", sparse=n > 40) for n in tables)
        self.bot_l = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        pairs = (len(tables) + 1) * len(tables) // 2
        self.top_l = nn.Sequential(nn.Linear(width + pairs, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, ids):
        x = self.bot_l(dense)
        rows = [table(ids[:, i:i + 1]) for i, table in enumerate(self.emb_l)]
        both = torch.cat([x] + rows, dim=1).view((x.shape[0], -1, x.shape[1]))
        products = torch.bmm(both, torch.transpose(both, 1, 2))
        ni, nj = products.shape[1:]
        li = torch.tensor([i for i in range(ni) for j in range(i)])
        lj = torch.tensor([j for i in range(nj) for j in range(i)])
        return self.top_l(torch.cat([x, products[:, li, lj]], dim=1))


def ids(*shape, below=WORDS):
    return torch.randint(below, (BATCH, *(shape or (PLACES,))))


LAST = {"classes_last": True}
MODELS = {
    "GPT, tied": lambda: (GPT(), (ids(), ids())),
    "BERT block": lambda: (BERT(), (ids(), torch.ones(BATCH, PLACES)), LAST),
    "LLaMA block": lambda: (LLaMA(), ids(), LAST),
    "T5 block": lambda: (T5(), (ids(), ids(9)), LAST),
    "LSTM language model": lambda: (Recurrent("LSTM"), (ids(), ids())),
    "GRU language model": lambda: (Recurrent("GRU"), (ids(), ids())),
    "U-Net": lambda: (UNet(), torch.randn(BATCH, 3, 22, 22)),
    "3-D CNN": lambda: (Volumes(), (torch.randn(BATCH, 2, 12, 12, 12), torch.randn(BATCH, 4))),
    "DLRM": lambda: (DLRM(), (torch.randn(BATCH, 5), ids(3, below=17)), {"behind": "bce_with_logits"})}
