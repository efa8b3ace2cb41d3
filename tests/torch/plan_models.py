# Models as people write them, small, and a batch each: of a plan's tests and its bench.
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn
from torch.nn import functional as F

WORDS, PLACES, WIDTH, HEADS, BATCH = 48, 8, 16, 4, 8


class Block(nn.Module):
    def __init__(self, before, approximate):
        super().__init__()
        self.before, self.approximate = before, approximate
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def turned(self, q):
        return q

    def attend(self, x):
        n, t, _ = x.shape
        q, k, v = (f(x).view(n, t, HEADS, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        q = self.turned(q)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.before)
        return self.out(y.transpose(1, 2).reshape(n, t, -1))

    def feed(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))

    def forward(self, x):
        if self.before:
            x = x + self.attend(self.norm1(x))
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed(x))


class TurnedBlock(Block):
    """What is cut by heads meets a buffer and a parameter that are not, as in rotary places and norms of queries."""

    def __init__(self, *given):
        super().__init__(*given)
        self.register_buffer("turn", torch.linspace(0.5, 1.5, PLACES * WIDTH // HEADS).view(PLACES, -1))
        self.scale = nn.Parameter(torch.linspace(0.8, 1.2, WIDTH // HEADS))

    def turned(self, q):
        return q * self.turn * self.scale


class GPT(nn.Module):
    """Its embedding is also its last layer."""
    BLOCK = Block

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.blocks = nn.ModuleList(self.BLOCK(True, "tanh") for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, labels):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.logits(self.norm(x)).flatten(0, 1), labels.flatten())

    def logits(self, x):
        return F.linear(x, self.words.weight)


class GPTWithHead(GPT):
    """Its last layer is one of its own, tied."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def logits(self, x):
        return self.head(x)


class TurnedGPT(GPTWithHead):
    BLOCK = TurnedBlock


class BERT(nn.Module):
    """Two classes by the first word."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.blocks = nn.ModuleList(Block(False, "none") for _ in range(2))
        self.norm, self.pooler, self.classes = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, ids, labels):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.classes(torch.tanh(self.pooler(x[:, 0]))), labels)


class LSTM(nn.Module):
    """The next word at every step."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.cells = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)

    def forward(self, ids, labels):
        return F.cross_entropy(self.out(self.cells(self.words(ids))[0]).transpose(1, 2), labels)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        import torchvision
        self.net = torchvision.models.resnet18(num_classes=8)

    def forward(self, images, labels):
        return F.cross_entropy(self.net(images), labels)


class Convolutions(nn.Module):
    """What only convolutions have, small."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.out = nn.Conv2d(8, 6, 3, padding=1), nn.Linear(6, 8)
        self.up = nn.ConvTranspose2d(6, 6, 2, 2)

    def forward(self, images, labels):
        x = self.second(F.relu(self.norm(self.first(images))))
        x = F.interpolate(F.softplus(F.pad(self.up(x), (1, 1, 1, 1))), scale_factor=0.5, mode="bilinear")
        return F.cross_entropy(self.out(x.mean((2, 3))), labels)


class Norms(nn.Module):
    """A batch norm before and behind a convolution."""

    def __init__(self):
        super().__init__()
        self.first, self.before = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.behind, self.out = nn.Conv2d(8, 6, 3), nn.BatchNorm2d(6), nn.Linear(6, 8)

    def forward(self, images, labels):
        x = self.behind(self.second(F.relu(self.before(self.first(images)))))
        return F.cross_entropy(self.out(x.mean((2, 3))), labels)


class Dropping(nn.Module):
    """Attention that drops, once to all places and once to those before, and a dropout behind each."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.drop = nn.Dropout(0.1)

    def attend(self, x, before):
        q, k, v = (f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=before)
        return x + self.drop(y.transpose(1, 2).flatten(2))

    def forward(self, ids, labels):
        x = self.attend(self.attend(self.words(ids), False), True)
        return F.cross_entropy(self.out(x).transpose(1, 2), labels)


class Kinds(nn.Module):
    """Operators that move, choose and add up, and losses of elements."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.rows = nn.Linear(8, 8), nn.Linear(8, 8), nn.Parameter(torch.randn(8, 4, 4))
        self.register_buffer("order", torch.tensor([3, 1, 2, 0]))

    def shaped(self, x):
        x = torch.stack([x, x.roll(1, 2)], 2).repeat(1, 1, 1, 2).amax(2)
        x = torch.einsum("nij,jkl->nikl", x[..., :8], self.rows).logsumexp(-1)
        x = x.index_select(2, self.order) + x[:, :, self.order] * x.unfold(2, 2, 2).flatten(2).cumsum(2)
        x = x.tanh()
        top, at = x.topk(2, -1)
        low, rest = x.var(-1, keepdim=True), x.gather(2, at) + torch.linalg.vector_norm(x, 2, [1], True)[..., :2]
        return x.tril() + 0.1 * F.pixel_shuffle(F.one_hot(at, 4).to(x).mul(top.unsqueeze(-1)), 2).sum((1, 2, 3))[
            :, None, None] * low + rest.mean(2, keepdim=True)

    def forward(self, x, y, labels):
        a, b = self.shaped(self.a(x)), self.b(x)[..., :4]
        each = F.cross_entropy(b, labels, reduction="none", weight=torch.tensor([1.0, 2.0, 1.0, 0.5]))
        loss = F.mse_loss(a, y[:, :1].expand_as(a)) + (each * y[:, :, 0].sigmoid()).mean() + F.logsigmoid(a).mean()
        return loss + F.nll_loss(b.log_softmax(1), labels) + F.binary_cross_entropy_with_logits(
            b, y.sigmoid(), pos_weight=torch.tensor(2.0)) + F.smooth_l1_loss(a, b, reduction="none").sum() / 100


class Nearest(nn.Module):
    """InfoNCE: every sample beside all others of the batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 8), nn.Linear(12, 8)

    def forward(self, x, y):
        return F.cross_entropy(self.a(x) @ self.b(y).T, torch.arange(len(x)))


def nearest():
    torch.manual_seed(1)
    return Nearest(), (torch.randn(BATCH, 12), torch.randn(BATCH, 12))


def ids(*shape, classes=WORDS):
    return torch.randint(classes, shape)


def gpt():
    torch.manual_seed(1)
    return GPT(), (ids(BATCH, PLACES), ids(BATCH, PLACES))


def gpt_head():
    torch.manual_seed(1)
    return GPTWithHead(), (ids(BATCH, PLACES), ids(BATCH, PLACES))


def turned():
    torch.manual_seed(1)
    return TurnedGPT(), (ids(BATCH, PLACES), ids(BATCH, PLACES))


def bert():
    torch.manual_seed(1)
    return BERT(), (ids(BATCH, PLACES), ids(BATCH, classes=4))


def lstm():
    torch.manual_seed(1)
    return LSTM(), (ids(BATCH, PLACES), ids(BATCH, PLACES))


def resnet18():
    torch.manual_seed(1)
    return ResNet(), (torch.randn(BATCH, 3, 64, 64), ids(BATCH, classes=8))


def convolutions():
    torch.manual_seed(1)
    return Convolutions(), (torch.randn(BATCH, 3, 8, 8), ids(BATCH, classes=8))


def norms():
    torch.manual_seed(1)
    return Norms(), (torch.randn(BATCH, 3, 8, 8), ids(BATCH, classes=8))


def kinds():
    torch.manual_seed(1)
    return Kinds(), (torch.randn(BATCH, 4, 8), torch.randn(BATCH, 4, 4), ids(BATCH, 4, classes=4))


def dropping():
    torch.manual_seed(1)
    return Dropping(), (ids(BATCH, PLACES), ids(BATCH, PLACES))


MODELS = {f.__name__: f for f in (gpt, gpt_head, turned, bert, lstm, resnet18, convolutions, norms, dropping, kinds,
                                  nearest)}
