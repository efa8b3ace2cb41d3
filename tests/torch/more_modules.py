# More modules as people write them: diffusion, encoders and decoders, experts; each with options of its export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch

nn = torch.nn
BATCH, WORDS, STEPS = 6, 31, 20


# ---- a diffusion U-Net ----

class Residual(nn.Module):
    """Convolutions, with what the step's embedding says between them."""

    def __init__(self, before, behind, width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, before), nn.Conv2d(before, behind, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, behind), nn.Conv2d(behind, behind, 3, padding=1)
        self.step, self.skip = nn.Linear(width, behind), nn.Conv2d(before, behind, 1)

    def forward(self, x, step):
        y = self.conv1(F.silu(self.norm1(x))) + self.step(F.silu(step))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class OverPixels(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(4, width), heads
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, self.heads, c // self.heads, h * w).mT.unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).mT.reshape(n, c, h, w))


class Diffusion(nn.Module):
    """Noise is added as a table of steps says; the network tells it again, knowing the step by sines."""

    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("kept", torch.linspace(0.99, 0.01, STEPS))
        self.embed = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, 2 * width))
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down, self.up = nn.Conv2d(width, 2 * width, 3, 2, 1), nn.Conv2d(2 * width, width, 3, padding=1)
        self.before, self.behind = Residual(width, width, 2 * width), Residual(2 * width, width, 2 * width)
        self.middle, self.attend, self.width = Residual(2 * width, 2 * width, 2 * width), OverPixels(2 * width), width

    def sines(self, steps):
        half = self.width // 2
        steps = steps * torch.ones(len(steps), dtype=steps.dtype)
        angles = steps.float()[:, None] * torch.exp(-math.log(100) * torch.arange(half) / half)[None]
        return torch.cat([angles.sin(), angles.cos()], -1)

    def forward(self, image, steps, noise):
        kept = self.extract(steps)
        x = kept.sqrt() * image + (1 - kept).sqrt() * noise
        step = self.embed(self.sines(steps).to(x.dtype))
        first = self.before(self.first(x), step)
        x = self.attend(self.middle(self.down(first), step))
        x = self.behind(torch.cat([self.up(F.interpolate(x, scale_factor=2.0)), first], 1), step)
        return F.smooth_l1_loss(self.last(x), noise)

    def extract(self, steps):
        return self.kept[steps][:, None, None, None]


class Gathered(Diffusion):
    """The table is read by gather, and the step is known by the table alone."""

    def extract(self, steps):
        return self.kept.gather(-1, steps).reshape(len(steps), 1, 1, 1)

    def sines(self, steps):
        return self.kept.index_select(0, steps)[:, None].expand(-1, self.width)


# ---- sequences ----

class Biased(nn.Module):
    """T5 by today's attention: what is added to scores is learned, and padding is hidden as libraries do it, by a
    function of one sample that is mapped over all; places by a list that every sample has."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.words, self.places, self.near = nn.Embedding(WORDS, width), nn.Embedding(12, width), nn.Embedding(4, heads)
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, WORDS), heads

    def forward(self, ids, shown):
        n, t = ids.shape
        places = torch.arange(t)[None].repeat(n, 1)
        x = self.words(ids) + self.places.weight[places]
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        apart = (torch.arange(t)[:, None] - torch.arange(t)).abs().clamp(max=3)
        bias = self.near(apart).permute(2, 0, 1)[None]
        bias = bias.masked_fill(torch.ones(n, 1, t, t, dtype=torch.bool).triu(1), -1e30)
        mask = shown.bool()[torch.arange(n)[:, None, None, None], torch.arange(t)[None, None, None]]
        mask = mask | (torch.arange(t) == 0)
        y = F.scaled_dot_product_attention(q, k, v, bias.masked_fill(~mask, -1e30), scale=1.0)
        return self.out(y.transpose(1, 2).flatten(2))


class Translator(nn.Module):
    """Two directions of GRU, whose last states begin a decoder that looks back at every word (Bahdanau)."""

    def __init__(self, width=12):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(3 * width, width, batch_first=True)
        self.bridge, self.key = (nn.Linear(2 * width, width) for _ in "12")
        self.query = nn.Linear(width, width)
        self.score, self.out = nn.Linear(width, 1, bias=False), nn.Linear(width, WORDS)

    def forward(self, source, target, labels):
        found, last = self.encoder(self.source(source))
        state, keys, made = torch.tanh(self.bridge(torch.cat([last[0], last[1]], 1)))[None], self.key(found), []
        for word in self.target(target).split(1, 1):
            scores = self.score(torch.tanh(self.query(state[-1])[:, None] + keys)).squeeze(-1)
            seen = torch.bmm(scores.softmax(-1)[:, None], found)
            y, state = self.decoder(torch.cat([word, seen], -1), state)
            made.append(self.out(y))
        return F.cross_entropy(torch.cat(made, 1).flatten(0, 1), labels.flatten())


class Experts(nn.Module):
    """Mixtral's layers, all experts weighed; rotary places as complex numbers."""

    def __init__(self, width=16, heads=4, shared=2, experts=3):
        super().__init__()
        self.heads, self.shared, self.words = heads, shared, nn.Embedding(WORDS, width)
        self.qkv = nn.Linear(width, (heads + 2 * shared) * width // heads, bias=False)
        self.out = nn.Linear(width, width)
        self.before, self.behind, self.gate = nn.RMSNorm(width), nn.RMSNorm(width), nn.Linear(width, experts)
        self.w1, self.w3 = (nn.Parameter(torch.randn(experts, width, 24) / 4) for _ in range(2))
        self.w2, self.head = nn.Parameter(torch.randn(experts, 24, width) / 4), nn.Linear(width, WORDS)
        angles = torch.outer(torch.arange(16), 100.0 ** -torch.linspace(0, 1, width // heads // 2))
        self.turn = torch.polar(torch.ones_like(angles), angles)  # no buffer, which .to(float) would make real

    def turned(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turn[:x.shape[1], None]).flatten(3).to(x.dtype)

    def forward(self, ids, labels):
        x = self.words(ids)
        sizes = [self.heads, self.shared, self.shared]
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (sum(sizes), -1)).split(sizes, 2)
        y = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (self.turned(q), self.turned(k), v)),
                                           is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.behind(x)
        up = F.silu(torch.einsum("ntc,ech->nteh", y, self.w1)) * torch.einsum("ntc,ech->nteh", y, self.w3)
        down = torch.einsum("nteh,ehc->ntec", up, self.w2)
        x = x + (down * self.gate(y).softmax(-1)[..., None]).sum(2)
        return F.cross_entropy(self.head(x).transpose(1, 2), labels)


# ---- weights that are computed ----

def normed(layer):
    return nn.utils.parametrizations.weight_norm(layer)


class Vocoder(nn.Module):
    """HiFi-GAN's layers: convolutions with weight norm, transposed, with gaps, in groups."""

    def __init__(self, width=8):
        super().__init__()
        self.before, self.behind = normed(nn.Conv1d(4, width, 7, padding=3)), normed(nn.Conv1d(6, 1, 7, padding=3))
        self.up = normed(nn.ConvTranspose1d(width, 6, 5, 2, padding=1, output_padding=1, groups=2))
        self.wide = normed(nn.Conv1d(6, 6, 3, dilation=3, padding=3, groups=3, bias=False))

    def forward(self, x, target):
        x = self.up(F.leaky_relu(self.before(x), 0.1))
        x = x + self.wide(F.leaky_relu(x, 0.1))
        return F.l1_loss(torch.tanh(self.behind(x)), target)


class Standardised(nn.Conv2d):
    """A convolution whose filters have mean 0 and deviation 1, as in BiT."""

    def forward(self, x):
        deviation, mean = torch.std_mean(self.weight, (1, 2, 3), keepdim=True)
        return F.conv2d(x, (self.weight - mean) / (deviation + 1e-5), self.bias, self.stride, self.padding)


class Pairs(nn.Module):
    """Filters that are computed; a bilinear layer of two halves."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = Standardised(3, 8, 3, stride=(2, 1), padding=(1, 0)), nn.GroupNorm(4, 8)
        self.grow = nn.Parameter(torch.randn(8, 6, 2, 3) / 4)
        self.pairs = nn.Bilinear(2, 4, 5)

    def forward(self, x):
        x = F.conv_transpose2d(F.relu(self.norm(self.conv(x))), self.grow.tanh(), stride=(1, 2), padding=(0, 1))
        x = x.mean((2, 3))
        return self.pairs(x[:, :2], x[:, 2:])


# ---- blocks of today ----

class Response(nn.Module):
    """ConvNeXt-V2's global response norm, channels last."""

    def __init__(self, width):
        super().__init__()
        self.gamma, self.beta = (nn.Parameter(torch.rand(1, 1, 1, width)) for _ in range(2))

    def forward(self, x):
        size = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        return self.gamma * (x * (size / (size.mean(-1, keepdim=True) + 1e-6))) + self.beta + x


class Linear(nn.Module):
    """EfficientViT's linear attention over pixels behind a ConvNeXt-V2 block."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, width, 2, 2), nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.up, self.respond = nn.LayerNorm(width), nn.Linear(width, 4 * width), Response(4 * width)
        self.down, self.qkv, self.each = nn.Linear(4 * width, width), nn.Conv2d(width, 3 * width, 1), width // heads
        self.mix = nn.Conv2d(3 * width, 3 * width, 5, padding=2, groups=3 * width, bias=False)
        self.out, self.head = nn.Conv2d(2 * width, width, 1), nn.Linear(width, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        x = x + self.down(self.respond(F.gelu(self.up(y)))).permute(0, 3, 1, 2)
        n, _, h, w = x.shape
        qkv = self.qkv(x)
        qkv = torch.cat([qkv, self.mix(qkv)], 1).reshape(n, -1, 3 * self.each, h * w)
        q, k, v = (part.relu() if i < 2 else F.pad(part, (0, 0, 0, 1), value=1) for i, part in enumerate(
            qkv.split(self.each, 2)))
        y = torch.matmul(torch.matmul(v, k.mT), q)
        y = (y[:, :, :-1] / (y[:, :, -1:] + 1e-5)).reshape(n, -1, h, w)
        return self.head((x + self.out(y)).mean((2, 3)))


class Conformer(nn.Module):
    """Half feed-forward layers, attention with relative places by a shift, a gated convolution with a batch norm."""

    def __init__(self, width=8, heads=2):
        super().__init__()

        def feed():
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, width))
        self.first, self.second, self.heads = feed(), feed(), heads
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.q, self.k, self.v, self.r, self.o = (nn.Linear(width, width) for _ in range(5))
        self.u, self.w = (nn.Parameter(torch.randn(heads, width // heads)) for _ in range(2))
        self.gate, self.deep = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.batch, self.point, self.head = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1), nn.Linear(width, 5)
        self.register_buffer("places", torch.randn(1, 9, width))

    def attend(self, x):
        n, t, c = x.shape
        q, k, v = (f(x).view(n, t, self.heads, -1) for f in (self.q, self.k, self.v))
        r = self.r(self.places[:, :t].repeat(n, 1, 1)).view(n, t, self.heads, -1).permute(0, 2, 3, 1)
        content = torch.matmul((q + self.u).transpose(1, 2), k.permute(0, 2, 3, 1))
        far = torch.matmul((q + self.w).transpose(1, 2), r)
        shifted = torch.cat([far.new_zeros(n, self.heads, t, 1), far], -1).view(n, self.heads, t + 1, t)[:, :, 1:]
        y = torch.matmul(torch.softmax((content + shifted) / math.sqrt(c), -1), v.transpose(1, 2))
        return self.o(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        x = x + self.attend(self.norm1(x))
        y = F.glu(self.gate(self.norm2(x).transpose(1, 2)), dim=1)
        x = x + self.point(F.silu(self.batch(self.deep(y)))).transpose(1, 2)
        return self.head(self.norm3(x + 0.5 * self.second(x)).mean(1))


def ids(*shape, below=WORDS):
    return torch.randint(below, (BATCH, *shape))


def pictures():
    return torch.randn(BATCH, 3, 8, 8), ids(below=STEPS), torch.randn(BATCH, 3, 8, 8)


MODELS = {
    "diffusion": lambda: (Diffusion(), pictures(), {}),
    "diffusion, by gather": lambda: (Gathered(), pictures(), {}),
    "biases that are learned": lambda: (Biased(), (ids(7), ids(7, below=2)),
                                        {"classes_last": True, "below": {"shown": 2}}),
    "GRU to GRU": lambda: (Translator(), (ids(5), ids(4), ids(4)), {}),
    "experts": lambda: (Experts(), (ids(7), ids(7)), {}),
    "weight norm": lambda: (Vocoder(), (torch.randn(BATCH, 4, 6), torch.randn(BATCH, 1, 14)), {}),
    "filters that are computed": lambda: (Pairs(), (torch.randn(BATCH, 3, 7, 6),), {}),
    "linear attention": lambda: (Linear(), (torch.randn(BATCH, 3, 8, 8),), {}),
    "conformer": lambda: (Conformer(), (torch.randn(BATCH, 7, 8),), {})}
