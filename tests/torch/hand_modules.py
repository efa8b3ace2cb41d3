# Modules as people write them by hand: losses of anything that is computed, experts that are chosen, generators.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
from pytorch import F, torch  # says SKIP and ends without PyTorch

nn = torch.nn
BATCH, WORDS = 8, 60


class Attended(nn.Module):
    """An LSTM that translates, looking back at what it read."""

    def __init__(self, width=24):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.reads = nn.LSTM(width, width, 2, batch_first=True)
        self.writes = nn.LSTM(width, width, 2, batch_first=True)
        self.mixes, self.head = nn.Linear(2 * width, width), nn.Linear(width, WORDS)

    def forward(self, source, target, following):
        memory, state = self.reads(self.source(source))
        y, _ = self.writes(self.target(target), state)
        scores = torch.bmm(y, memory.transpose(1, 2)).masked_fill((source == 0)[:, None], float("-inf"))
        y = torch.tanh(self.mixes(torch.cat([y, torch.bmm(scores.softmax(-1), memory)], -1)))
        return F.cross_entropy(self.head(y).transpose(1, 2), following, ignore_index=0, label_smoothing=0.1)


class Temporal(nn.Module):
    """A TCN: causal convolutions with gaps, cut at the end."""

    def __init__(self, width=16):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(3 if i == 0 else width, width, 3, padding=2 << i, dilation=1 << i)
                                   for i in range(3))
        self.skip, self.head = nn.Conv1d(3, width, 1), nn.Linear(width, 1)

    def forward(self, x, y):
        h = x
        for i, conv in enumerate(self.convs):
            z = conv(h)[..., :-(2 << i)]
            h = F.relu(F.relu(z) + (self.skip(h) if i == 0 else h))
        return F.smooth_l1_loss(self.head(h[..., -1]).squeeze(-1), y)


class Generator(nn.Module):
    """DCGAN's, against a discriminator: the sum of both their losses."""

    def __init__(self, z=8):
        super().__init__()
        self.makes = nn.Sequential(
            nn.ConvTranspose2d(z, 16, 4, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())
        self.tells = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(8, 16, 4, 2, 1),
                                   nn.LeakyReLU(0.2, True), nn.Flatten(), nn.Linear(256, 1))

    def forward(self, z, real):
        made, seen = self.tells(self.makes(z[:, :, None, None])), self.tells(real)
        return F.binary_cross_entropy_with_logits(made, torch.zeros_like(made)) + \
            F.binary_cross_entropy_with_logits(seen, torch.ones_like(seen))


class Hinge(Generator):
    """The same with the hinge loss of GANs."""

    def forward(self, z, real):
        made, seen = self.tells(self.makes(z[:, :, None, None])), self.tells(real)
        return F.relu(1 + made).mean() + F.relu(1 - seen).mean()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.outer = nn.Sequential(nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.ReLU(),
                                   nn.ConvTranspose2d(8, 1, 3, 2, 1, 1), nn.Sigmoid())

    def forward(self, x, target):
        return F.binary_cross_entropy(self.outer(self.inner(x)), target)


class Variational(nn.Module):
    """A VAE that is given its noise."""

    def __init__(self, width=12, z=4):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 2 * z))
        self.outer = nn.Sequential(nn.Linear(z, 16), nn.ReLU(), nn.Linear(16, width))

    def forward(self, x, noise):
        mean, logvar = self.inner(x).chunk(2, -1)
        y = self.outer(mean + noise * (0.5 * logvar).exp())
        kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(-1)
        return F.mse_loss(y, x) + 0.1 * kl.mean()


class Towers(nn.Module):
    """Users and things, and whether the one wants the other."""

    def __init__(self, width=16):
        super().__init__()
        self.user, self.thing = nn.Embedding(40, width), nn.Embedding(50, width)
        self.history = nn.EmbeddingBag(50, width, mode="mean")
        self.left = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, width))
        self.right = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))

    def forward(self, user, seen, thing, wants):
        a = self.left(torch.cat([self.user(user), self.history(seen)], -1))
        scores = F.cosine_similarity(a, self.right(self.thing(thing))) / 0.1
        return F.binary_cross_entropy_with_logits(scores, wants, pos_weight=torch.tensor(3.0))


class Graphs(nn.Module):
    """A graph convolution network of a fixed graph, then attention along its edges."""

    def __init__(self, nodes=12, width=8):
        super().__init__()
        edges = (torch.rand(nodes, nodes) < 0.3) | torch.eye(nodes, dtype=torch.bool)
        self.register_buffer("edges", edges)
        self.register_buffer("among", edges / edges.sum(1, keepdim=True))
        self.first, self.second, self.head = nn.Linear(4, width), nn.Linear(width, width), nn.Linear(width, 5)
        self.left, self.right = nn.Linear(width, 1, bias=False), nn.Linear(width, 1, bias=False)

    def forward(self, x, labels):
        x = F.relu(self.among @ self.first(x))
        x = self.second(x)
        scores = F.leaky_relu(self.left(x) + self.right(x).transpose(1, 2), 0.2)
        scores = scores.masked_fill(~self.edges, float("-inf")).softmax(-1)
        return F.cross_entropy(self.head(F.elu(scores @ x)).flatten(0, 1), labels.flatten())


class Siamese(nn.Module):
    """Two images by one network: near if they are alike, else at least a margin apart."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(392, 8))

    def forward(self, a, b, alike):
        apart = F.pairwise_distance(self.net(a), self.net(b))
        return (alike * apart.pow(2) + (1 - alike) * F.relu(4.0 - apart).pow(2)).mean()


class Triplet(Siamese):
    def forward(self, a, b, c):
        return F.triplet_margin_loss(self.net(a), self.net(b), self.net(c), margin=1.0)


class Tasks(nn.Module):
    """Two tasks, whose losses are weighed by what is learned (Kendall)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())
        self.classes, self.number, self.share = nn.Linear(32, 5), nn.Linear(32, 1), 0.3

    def forward(self, x, label, y):
        x, weight = self.body(x), torch.tensor([1.0, 2.0, 1.0, 0.5, 1.0], dtype=x.dtype)
        return F.cross_entropy(self.classes(x), label, weight=weight) + \
            self.share * F.mse_loss(self.number(x).squeeze(-1), y)


class Distilled(nn.Module):
    """A student of a teacher's logits, and of labels."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 5))

    def forward(self, x, teacher, label):
        y = self.net(x)
        soft = F.kl_div(F.log_softmax(y / 2, -1), F.softmax(teacher / 2, -1), reduction="batchmean") * 4
        return 0.5 * soft + 0.5 * F.cross_entropy(y, label)


class Focal(nn.Module):
    """RetinaNet's loss."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))

    def forward(self, x, target):
        y = self.net(x)
        p, each = y.sigmoid(), F.binary_cross_entropy_with_logits(y, target, reduction="none")
        at = p * target + (1 - p) * (1 - target)
        return ((0.25 * target + 0.75 * (1 - target)) * (1 - at) ** 2 * each).mean()


class Masked(nn.Module):
    """A language model that is trained where the mask says so."""

    def __init__(self, width=16):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.layer = nn.TransformerEncoderLayer(width, 4, 32, 0.0, batch_first=True, norm_first=True)

    def forward(self, x, labels, mask):
        y = self.head(self.layer(self.words(x)))
        each = F.cross_entropy(y.transpose(1, 2), labels, reduction="none")
        return ((each * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()


class Mesh(nn.Module):
    """MeshGraphNets: messages along a mesh's edges, added up where they go."""

    def __init__(self, nodes=10, edges=24, width=8):
        super().__init__()
        g = torch.Generator().manual_seed(1)
        self.register_buffer("src", torch.randint(nodes, (edges,), generator=g))
        self.register_buffer("dst", torch.randint(nodes, (edges,), generator=g))
        self.inner, self.outer = nn.Linear(3, width), nn.Linear(width, 2)
        self.tells = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, width), nn.LayerNorm(width))
        self.learns = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, width), nn.LayerNorm(width))

    def forward(self, x, y):
        h = self.inner(x)
        for _ in range(2):
            m = self.tells(torch.cat([h[:, self.src], h[:, self.dst]], -1))
            h = h + self.learns(torch.cat([h, torch.zeros_like(h).index_add(1, self.dst, m)], -1))
        return F.mse_loss(self.outer(h), y)


class Experts(nn.Module):
    """A language model whose tokens choose two of four experts, weighed by the chosen ones' softmax."""

    def __init__(self, width=16, experts=4, choices=2):
        super().__init__()
        self.words, self.head, self.choices = nn.Embedding(WORDS, width), nn.Linear(width, WORDS), choices
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
                                     for _ in range(experts))

    def weights(self, x):
        """Of all experts, zero for those that were not chosen."""
        scores = self.gate(x)
        top, at = scores.topk(self.choices, -1)
        return torch.full_like(scores, float("-inf")).scatter(-1, at, top).softmax(-1)

    def forward(self, x, labels):
        x = self.words(x)
        weights = self.weights(x)
        x = x + sum(weights[..., i, None] * e(x) for i, e in enumerate(self.experts))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Scattered(Experts):
    """The probabilities of those chosen, made to sum to one."""

    def weights(self, x):
        p = self.gate(x).softmax(-1)
        top, at = p.topk(self.choices, -1)
        return torch.zeros_like(p).scatter(-1, at, top / top.sum(-1, keepdim=True))


class OneHot(Experts):
    def weights(self, x):
        p = self.gate(x).softmax(-1)
        top, at = torch.topk(p, self.choices)
        return (F.one_hot(at, p.shape[-1]) * top[..., None]).sum(-2)


class Switch(Experts):
    """The best expert alone (Fedus et al.)."""

    def weights(self, x):
        p = self.gate(x).softmax(-1)
        top, at = p.max(-1)
        return F.one_hot(at, p.shape[-1]) * top[..., None]


class Looped(Experts):
    """Each expert is asked about the tokens that chose it."""

    def forward(self, x, labels):
        x = self.words(x)
        flat = x.view(-1, x.shape[-1])
        top, at = self.gate(flat).softmax(-1).topk(self.choices, -1)
        top = top / top.sum(-1, keepdim=True)
        y = torch.zeros_like(flat)
        for i, e in enumerate(self.experts):
            row, which = torch.where(at == i)
            y[row] += top[row, which, None] * e(flat[row])
        return F.cross_entropy(self.head(x + y.view_as(x)).flatten(0, 1), labels.flatten())


class Thresholds(nn.Module):
    """Conditions on what is computed: a tree that is soft, a clamp by a tensor, a loss that changes its shape."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, y):
        h = self.a(x)
        h = torch.where(h > 0.1, self.b(h), self.c(h))
        h = torch.minimum(torch.maximum(h, x - 1), x + 1)
        apart = (h - y).abs()
        return torch.where(apart < 0.5, apart.pow(2), apart - 0.25).mean()


class Weights(Experts):
    """Matrices are looked up for every token, as the transformers package does it."""

    def __init__(self, width=16, experts=4, choices=2):
        super().__init__(width, experts, choices)
        self.experts = None
        self.up, self.down = (nn.Parameter(0.3 * torch.randn(experts, *shape)) for shape in ((32, width), (width, 32)))
        self.bias = nn.Parameter(torch.randn(experts, 32))
        self.turned = nn.Parameter(0.3 * torch.randn(experts, width, width))

    def forward(self, x, labels):
        x = self.words(x)
        flat = x.view(-1, x.shape[-1])
        top, at = self.gate(flat).softmax(-1).topk(self.choices, -1)
        at = at.reshape(-1)
        y = torch.bmm(self.up[at], flat.repeat_interleave(self.choices, 0).unsqueeze(-1)).squeeze(-1) + self.bias[at]
        y = torch.bmm(self.down[at], F.silu(y).unsqueeze(-1)).squeeze(-1)
        y = torch.bmm(y.unsqueeze(1), self.turned[at]).squeeze(1)
        y = (y * top.reshape(-1, 1)).view(len(flat), self.choices, -1).sum(1)
        return F.cross_entropy(self.head(x + y.view_as(x)).flatten(0, 1), labels.flatten())


class Groups(Experts):
    """DeepSeek's: of two groups of experts the better one, by scores that nothing else reads."""

    def weights(self, x):
        p = self.gate(x).sigmoid()
        groups = p.unflatten(-1, (2, 2)).topk(2, -1)[0].sum(-1)
        best = torch.zeros_like(groups).scatter_(-1, groups.topk(1, -1)[1], 1)
        mask = best.unsqueeze(-1).expand(*best.shape, 2).flatten(-2)
        at = p.masked_fill(~mask.bool(), float("-inf")).topk(1, -1)[1]
        return torch.zeros_like(p).scatter(-1, at, p.gather(-1, at))


class Padded(nn.Module):
    """A row of padding that is not trained, of a table that is the head's, too."""

    def __init__(self, width=16):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, width, padding_idx=1), nn.Linear(width, WORDS, bias=False)
        nn.init.normal_(self.words.weight)
        self.head.weight = self.words.weight
        self.mix = nn.Linear(width, width)

    def forward(self, x, labels):
        return F.cross_entropy(self.head(self.mix(self.words(x)).tanh()).flatten(0, 1), labels.flatten())


def ids(length=10):
    return torch.randint(WORDS, (BATCH, length))


def pictures(*shape):
    return torch.randn(BATCH, *shape)


def lm(make):
    return lambda: (make(), (ids(), ids()), {})


# Of an output and its target, and whether that is labels.
LOSSES = {
    "another function": (lambda x, y: (x - y).exp().mean(), False),
    "half a mean": (lambda x, y: F.mse_loss(x, y, reduction="none").mean(1).mean(), False),
    "a known target": (lambda x, y: F.mse_loss(x, torch.ones_like(x)) + F.l1_loss(y, x), False),
    "divergence": (lambda x, y: F.kl_div(x.log_softmax(1), y, reduction="batchmean") + F.kl_div(
        x.log_softmax(1), y.log_softmax(1), log_target=True), False),
    "weighed elements": (lambda x, y: F.binary_cross_entropy_with_logits(
        x, y, torch.arange(1, 6).to(x), pos_weight=torch.tensor(2.0)), False),
    "shares by hand": (lambda x, y: F.binary_cross_entropy((x.tanh() + 1) / 2, y.sigmoid()), False),
    "soft labels": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), False),
    "less of an entropy": (lambda x, y: F.mse_loss(x, y) - 0.1 * (x.softmax(1) * x.log_softmax(1)).sum(1).mean(),
                           False),
    "weighed classes": (lambda x, y: F.cross_entropy(x, y, torch.arange(1, 6).to(x), reduction="sum") / len(x), True),
    "focal": (lambda x, y: ((1 - (-F.cross_entropy(x, y, reduction="none")).exp()) ** 2 * F.cross_entropy(
        x, y, reduction="none")).mean(), True),
    "squares of what counts": (lambda x, y: F.cross_entropy(x, y, ignore_index=1, reduction="none").square(
        ).mean() + F.cross_entropy(x, y, ignore_index=1, label_smoothing=0.1, reduction="none").exp().mean(), True),
    "logarithms by hand": (lambda x, y: F.nll_loss((x.softmax(1) + 0.1).log(), y), True)}
MODELS = {
    "LSTM with attention": lambda: (Attended(), (ids(9), ids(7), ids(7)), {}),
    "TCN": lambda: (Temporal(), (pictures(3, 20), torch.randn(BATCH)), {}),
    "GAN": lambda: (Generator(), (pictures(8), pictures(3, 16, 16)), {}),
    "GAN, hinge": lambda: (Hinge(), (pictures(8), pictures(3, 16, 16)), {}),
    "autoencoder": lambda: (Autoencoder(), (pictures(1, 16, 16), torch.rand(BATCH, 1, 16, 16)), {}),
    "VAE": lambda: (Variational(), (pictures(12), pictures(4)), {}),
    "two towers": lambda: (Towers(), (torch.randint(40, (BATCH,)), torch.randint(50, (BATCH, 6)),
                                      torch.randint(50, (BATCH,)), torch.rand(BATCH)), {}),
    "graph attention": lambda: (Graphs(), (pictures(12, 4), torch.randint(5, (BATCH, 12))), {}),
    "mesh": lambda: (Mesh(), (pictures(10, 3), pictures(10, 2)), {}),
    "siamese": lambda: (Siamese(), (pictures(1, 16, 16), pictures(1, 16, 16), torch.rand(BATCH).round()), {}),
    "triplets": lambda: (Triplet(), (pictures(1, 16, 16), pictures(1, 16, 16), pictures(1, 16, 16)), {}),
    "distillation": lambda: (Distilled(), (pictures(10), pictures(5), torch.randint(5, (BATCH,))), {}),
    "focal loss": lambda: (Focal(), (pictures(3, 8, 8), torch.rand(BATCH, 4, 8, 8).round()), {}),
    "masked places": lambda: (Masked(), (ids(), ids(), torch.rand(BATCH, 10).round()), {}),
    "conditions": lambda: (Thresholds(), (pictures(8), pictures(8)), {}),
    "experts, softmax of two": lm(Experts), "experts, scattered": lm(Scattered), "experts, one-hot": lm(OneHot),
    "experts, the best": lm(Switch),
    "experts, by their weights": lm(Weights), "experts, in groups": lm(Groups),
    "padding": lambda: (Padded(), (torch.randint(3, (BATCH, 10)), ids()), {}),
    "two tasks": lambda: (Tasks(), (pictures(10), torch.randint(5, (BATCH,)), torch.randn(BATCH)), {}),
    "experts, a loop": lm(Looped)}
