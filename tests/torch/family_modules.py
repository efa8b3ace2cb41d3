# What families of published models do that others do not; each with options of its export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch

nn = torch.nn
BATCH, WORDS, PLACES, WIDTH, HEADS = 6, 23, 7, 16, 4


class Family(nn.Module):
    """Ids to logits, with something in between."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def heads(self, x):
        return x.view(*x.shape[:2], -1, WIDTH // HEADS).transpose(1, 2)

    def joined(self, x):
        return self.out(x.transpose(1, 2).flatten(2))

    def forward(self, ids, labels):
        x = self.table(ids)
        return F.cross_entropy(self.head(x + self.between(x, ids)).flatten(0, 1), labels.flatten())


class OneKey(Family):
    """Falcon: all queries share a head of keys; Phi-3: rotary places of all of a head, and none is left."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, WIDTH + 2 * WIDTH // HEADS)

    def turned(self, x):
        angles = torch.arange(PLACES)[:, None] * torch.tensor([1.0, 0.1]).repeat(2)
        size = x.shape[-1]
        turning, rest = x[..., :size], x[..., size:]
        a, b = turning.chunk(2, -1)
        return torch.cat([turning * angles.cos() + torch.cat([-b, a], -1) * angles.sin(), rest], -1)

    def between(self, x, ids):
        q, k, v = (self.heads(y) for y in self.qkv(x).split([WIDTH, WIDTH // HEADS, WIDTH // HEADS], -1))
        return self.joined(F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True))


class Latent(Family):
    """DeepSeek: keys are written into an empty tensor, a part of every head's own and one that all share."""

    def between(self, x, ids):
        q, k, v = (self.heads(y) for y in self.qkv(x).chunk(3, -1))
        keys = k.new_empty(*k.shape)
        keys[..., :2].copy_(k[..., :2])
        keys[..., 2:].copy_(k[:, :1, :, 2:].expand(-1, HEADS, -1, -1))
        return self.joined(F.scaled_dot_product_attention(q, keys, v))


class Linear(Family):
    """BLOOM: biases that grow with the distance, made in 16 bits, for heads of all samples behind each other."""

    def between(self, x, ids):
        q, k, v = (self.heads(y).reshape(-1, PLACES, WIDTH // HEADS) for y in self.qkv(x).chunk(3, -1))
        slopes = 2.0 ** -torch.arange(1.0, HEADS + 1)
        alibi = slopes[:, None].bfloat16() * torch.ones(len(x), PLACES).cumsum(-1)[:, None]
        scores = alibi.type_as(q).reshape(-1, 1, PLACES).baddbmm(q, k.mT, alpha=0.5)
        y = scores.softmax(-1).bmm(v)
        return self.joined(y.view(len(x), HEADS, PLACES, -1))


class Unpadded(Family):
    """RoBERTa: places are counted without padding, the others have the row of padding."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(PLACES + 2, WIDTH, padding_idx=1)
        self.kinds = nn.Embedding(2, WIDTH)
        self.register_buffer("kind", torch.zeros(1, PLACES + 2, dtype=torch.long))

    def between(self, x, ids):
        there = ids.ne(1).int()
        places = (there.cumsum(1).type_as(there) * there).long() + 1
        kinds = self.kind.expand(len(ids), -1).gather(1, places)
        return self.out(self.places(places) + self.kinds(kinds))


class Relative(Family):
    """DeBERTa: queries meet rows of distances, of which each place takes its own."""

    def __init__(self):
        super().__init__()
        self.distances = nn.Parameter(torch.randn(9, WIDTH))

    def between(self, x, ids):
        q, k, v = (self.heads(y).flatten(0, 1) for y in self.qkv(x).chunk(3, -1))
        rows = self.distances.view(9, HEADS, -1).transpose(0, 1).repeat(len(x), 1, 1)
        apart = (torch.arange(PLACES)[:, None] - torch.arange(PLACES)).clamp(-4, 4) + 4
        scores = q @ k.mT + (q @ rows.mT).gather(-1, apart.expand(len(q), -1, -1))
        y = (scores / math.sqrt(WIDTH)).softmax(-1) @ v
        return self.joined(y.view(len(x), HEADS, PLACES, -1))


class Flow(nn.Module):
    """Flow matching: the target is the way from image to noise, steps are expanded to what they are."""

    def __init__(self):
        super().__init__()
        self.body, self.last = nn.Linear(9, 12), nn.Linear(12, 8)

    def forward(self, image, noise, step):
        step = step.expand(len(image))[:, None] / 10
        x = F.softplus(self.body(torch.cat([image + step * (noise - image), step], -1))).clamp(0.1, math.inf)
        return F.mse_loss(self.last(x), noise - image)


class Robust(nn.Linear):
    """Losses of another width, and of two outputs."""

    def __init__(self):
        super().__init__(8, 8)

    def forward(self, x, y):
        a, b = super().forward(x), super().forward(y)
        return F.huber_loss(a, y, delta=0.3) + 2 * F.smooth_l1_loss(b, x, beta=0.5) + F.l1_loss(a, b)


def words(make):
    return lambda: (make(), (torch.randint(WORDS, (BATCH, PLACES)), torch.randint(WORDS, (BATCH, PLACES))), {})


MODELS = {
    "one head of keys": words(OneKey), "keys in parts": words(Latent), "biases by distance": words(Linear),
    "places without padding": words(Unpadded), "rows of distances": words(Relative),
    "flow matching": lambda: (Flow(), (torch.randn(BATCH, 8), torch.randn(BATCH, 8), torch.randint(10, (BATCH,))),
                              {"below": {"step": 10}}),
    "robust losses": lambda: (Robust(), (torch.randn(BATCH, 8), torch.randn(BATCH, 8)), {})}
