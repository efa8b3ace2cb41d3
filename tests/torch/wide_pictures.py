# Models that the other lists lack, as people write them: pictures, diffusion, codes, sound, agents.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- pictures ----

class Nested(nn.Module):
    """UNet++ with its supervision at each depth."""

    def __init__(self, w=(4, 6, 8)):
        super().__init__()
        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
        self.pool, self.up = nn.MaxPool2d(2, 2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.c00, self.c10, self.c20 = block(1, w[0]), block(w[0], w[1]), block(w[1], w[2])
        self.c01, self.c11 = block(w[0] + w[1], w[0]), block(w[1] + w[2], w[1])
        self.c02, self.heads = block(2 * w[0] + w[1], w[0]), nn.ModuleList(nn.Conv2d(w[0], 1, 1) for _ in range(2))

    def forward(self, x, y):
        x00 = self.c00(x)
        x10 = self.c10(self.pool(x00))
        x01 = self.c01(torch.cat([x00, self.up(x10)], 1))
        x20 = self.c20(self.pool(x10))
        x11 = self.c11(torch.cat([x10, self.up(x20)], 1))
        x02 = self.c02(torch.cat([x00, x01, self.up(x11)], 1))
        loss = 0
        for head, z in zip(self.heads, (x01, x02)):
            z = head(z)
            p = torch.sigmoid(z).flatten(1)
            both = (p * y.flatten(1)).sum(1)
            loss = loss + 0.5 * F.binary_cross_entropy_with_logits(z, y) + 1 - (
                (2 * both + 1e-5) / (p.sum(1) + y.flatten(1).sum(1) + 1e-5)).mean()
        return loss / len(self.heads)


class Volumes(nn.Module):
    """V-Net: volumes, a slope for each channel, dice of squares."""

    def __init__(self, w=4):
        super().__init__()
        self.first, self.act = nn.Conv3d(1, w, 5, padding=2), nn.PReLU(w)
        self.down, self.norm = nn.Conv3d(w, 2 * w, 2, stride=2), nn.InstanceNorm3d(2 * w, affine=True)
        self.up, self.out = nn.ConvTranspose3d(2 * w, w, 2, stride=2), nn.Conv3d(2 * w, 2, 1)

    def forward(self, x, y):
        a = self.act(self.first(x) + x.expand(-1, 4, -1, -1, -1))
        b = F.elu(self.norm(self.down(a)))
        p = F.softmax(self.out(torch.cat([self.up(b), a], 1)), dim=1)[:, 1].flatten(1)
        y = y.flatten(1)
        return (1 - 2 * (p * y).sum(1) / (p.pow(2).sum(1) + y.pow(2).sum(1) + 1e-5)).mean()


class Involved(nn.Module):
    """Filters that each place makes for itself, and attention of channels and places."""

    def __init__(self, w=8, k=3, groups=2):
        super().__init__()
        self.k, self.groups = k, groups
        self.stem, self.reduce = nn.Conv2d(3, w, 3, padding=1), nn.Sequential(nn.Conv2d(w, 4, 1), nn.BatchNorm2d(4),
                                                                            nn.ReLU())
        self.span, self.unfold = nn.Conv2d(4, k * k * groups, 1), nn.Unfold(k, 1, k // 2, 1)
        self.mlp, self.place = nn.Sequential(nn.Conv2d(w, 2, 1), nn.ReLU(), nn.Conv2d(2, w, 1)), nn.Conv2d(2, 1, 7,
                                                                                                        padding=3)
        self.gate, self.out = nn.Conv1d(1, 1, 3, padding=1, bias=False), nn.Linear(w, 4)

    def forward(self, x, labels):
        x = self.stem(x)
        n, c, h, w = x.shape
        kernel = self.span(self.reduce(x)).view(n, self.groups, self.k ** 2, h, w).unsqueeze(2)
        x = (kernel * self.unfold(x).view(n, self.groups, c // self.groups, self.k ** 2, h, w)).sum(3).view(n, c, h, w)
        x = x * torch.sigmoid(self.mlp(F.adaptive_avg_pool2d(x, 1)) + self.mlp(F.adaptive_max_pool2d(x, 1)))
        x = x * self.place(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)).sigmoid()
        y = self.gate(x.mean((2, 3), keepdim=True).squeeze(-1).transpose(-1, -2)).transpose(-1, -2).unsqueeze(-1)
        return F.cross_entropy(self.out((x * y.sigmoid().expand_as(x)).mean((2, 3))), labels, label_smoothing=0.1)


class Unpooled(nn.Module):
    """SegNet: what a pool took goes back to where it was."""

    def __init__(self, w=4):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, w, 3, padding=1), nn.Conv2d(w, w, 3, padding=1), nn.Conv2d(w, 3, 1)

    def forward(self, x, labels):
        y, at = F.max_pool2d(F.relu(self.a(x)), 2, return_indices=True)
        y = F.max_unpool2d(F.relu(self.b(y)), at, 2)
        return F.cross_entropy(self.c(y), labels)


class Flow(nn.Module):
    """RAFT, small: all pairs of places, looked up where the flow is, and a convolution's GRU; two steps."""

    def __init__(self, w=6, radius=1):
        super().__init__()
        self.radius, self.encode, self.context = radius, nn.Conv2d(3, w, 3, 2, 1), nn.Conv2d(3, w, 3, 2, 1)
        side = (2 * radius + 1) ** 2
        self.motion, self.gates, self.new = nn.Conv2d(2 * side + 2, w, 3, padding=1), nn.Conv2d(
            2 * w, 2 * w, 3, padding=1), nn.Conv2d(2 * w, w, 3, padding=1)
        self.head, self.mask = nn.Conv2d(w, 2, 3, padding=1), nn.Conv2d(w, 4 * 9, 1)

    def look(self, volumes, at):
        n, h, w, _ = at.shape
        d = torch.linspace(-self.radius, self.radius, 2 * self.radius + 1)
        delta = torch.stack(torch.meshgrid(d, d, indexing="ij"), dim=-1)
        found = []
        for i, v in enumerate(volumes):
            grid = at.reshape(n * h * w, 1, 1, 2) / 2 ** i + delta.view(1, *delta.shape)
            x, y = grid.split([1, 1], dim=-1)
            grid = torch.cat([2 * x / (v.shape[-1] - 1) - 1, 2 * y / (v.shape[-2] - 1) - 1], dim=-1)
            found.append(F.grid_sample(v, grid, align_corners=True).view(n, h, w, -1))
        return torch.cat(found, dim=-1).permute(0, 3, 1, 2)

    def forward(self, a, b, flow):
        fa, fb = self.encode(a), self.encode(b)
        n, c, h, w = fa.shape
        pairs = torch.matmul(fa.view(n, c, h * w).transpose(1, 2), fb.view(n, c, h * w)).view(n * h * w, 1, h, w)
        pairs = pairs / math.sqrt(c)
        volumes = [pairs, F.avg_pool2d(pairs, 2, stride=2)]
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        start = torch.stack([xs, ys], dim=0).float()[None].repeat(n, 1, 1, 1)
        at, state, loss = start, torch.tanh(self.context(a)), 0
        for i in range(2):
            at = at.detach()
            x = F.relu(self.motion(torch.cat([self.look(volumes, at.permute(0, 2, 3, 1)), at - start], 1)))
            z, r = torch.sigmoid(self.gates(torch.cat([state, x], 1))).chunk(2, 1)
            state = (1 - z) * state + z * torch.tanh(self.new(torch.cat([r * state, x], 1)))
            at = at + self.head(state)
            mask = torch.softmax(0.25 * self.mask(state).view(n, 1, 9, 2, 2, h, w), dim=2)
            up = F.unfold(2 * (at - start), [3, 3], padding=1).view(n, 2, 9, 1, 1, h, w)
            up = torch.sum(mask * up, dim=2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 2 * h, 2 * w)
            loss = loss + 0.8 ** (1 - i) * (up - flow).abs().mean()
        return loss


class Anchorless(nn.Module):
    """YOLOv8's head: boxes are expectations over bins, an upper and a lower one of which are the target."""

    def __init__(self, w=8, bins=5, classes=3):
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(nn.Conv2d(3, w, 3, 2, 1, bias=False), nn.BatchNorm2d(w), nn.SiLU(inplace=True))
        self.box, self.cls = nn.Conv2d(w, 4 * bins, 1), nn.Conv2d(w, classes, 1)
        self.register_buffer("project", torch.arange(bins, dtype=torch.float))

    def forward(self, x, target, scores, counts):
        x = self.stem(x)
        n, _, h, w = x.shape
        box = self.box(x).view(n, 4 * self.bins, h * w).permute(0, 2, 1)
        cls = self.cls(x).view(n, self.classes, h * w).permute(0, 2, 1)
        places = box.view(n, h * w, 4, self.bins).softmax(3).matmul(self.project)
        low = target.floor().long()
        weight = (low + 1) - target
        flat = box.reshape(-1, self.bins)
        dfl = F.cross_entropy(flat, low.view(-1), reduction="none").view(target.shape) * weight + F.cross_entropy(
            flat, (low + 1).view(-1), reduction="none").view(target.shape) * (1 - weight)
        total = counts.sum()
        return (F.binary_cross_entropy_with_logits(cls, scores, reduction="none") * counts).sum() / total + (
            (dfl.mean(-1, keepdim=True) + F.smooth_l1_loss(places, target, reduction="none").mean(
                -1, keepdim=True)) * counts).sum() / total


class Spots(nn.Module):
    """CenterNet: a heat map, whose focal loss counts what is no centre by its distance."""

    def __init__(self, w=6):
        super().__init__()
        self.stem, self.heat, self.size = nn.Conv2d(3, w, 3, padding=1), nn.Conv2d(w, 2, 1), nn.Conv2d(w, 2, 1)

    def forward(self, x, heat, places, sizes):
        x = F.relu(self.stem(x))
        p = torch.clamp(self.heat(x).sigmoid_(), min=1e-4, max=1 - 1e-4)
        heat = heat.clamp(0, 1)
        pos, neg = heat.eq(1).float(), heat.lt(1).float()
        loss = torch.log(p) * torch.pow(1 - p, 2) * pos + torch.log(1 - p) * torch.pow(p, 2) * torch.pow(
            1 - heat, 4) * neg
        found = self.size(x).permute(0, 2, 3, 1).flatten(1, 2)
        found = found.gather(1, places.unsqueeze(2).expand(places.size(0), places.size(1), 2))
        return -loss.sum() / pos.sum() + 0.1 * F.l1_loss(found, sizes)


class Simple(nn.Module):
    """NAFNet: products of halves in the place of activations, norms of channels, a scale that begins at zero."""

    def __init__(self, w=8):
        super().__init__()
        self.intro, self.ending = nn.Conv2d(3, w, 3, padding=1), nn.Conv2d(w, 3, 3, padding=1)
        self.one, self.two, self.three = nn.Conv2d(w, 2 * w, 1), nn.Conv2d(2 * w, 2 * w, 3, padding=1, groups=2 * w), \
            nn.Conv2d(w, w, 1)
        self.sca, self.beta = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(w, w, 1)), nn.Parameter(
            torch.full((1, w, 1, 1), 0.1))
        self.weight, self.bias = nn.Parameter(torch.ones(w)), nn.Parameter(torch.zeros(w))
        self.down, self.up = nn.Conv2d(w, 2 * w, 2, 2), nn.Sequential(nn.Conv2d(2 * w, 4 * w, 1, bias=False),
                                                                      nn.PixelShuffle(2))

    def norm(self, x):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        return self.weight.view(1, -1, 1, 1) * ((x - mu) / (var + 1e-6).sqrt()) + self.bias.view(1, -1, 1, 1)

    def forward(self, x, y):
        h = self.intro(x)
        a, b = self.two(self.one(self.norm(h))).chunk(2, dim=1)
        z = a * b
        h = h + self.three(z * self.sca(z)) * self.beta
        out = self.ending(h + self.up(self.down(h))) + x
        return (10 / math.log(10)) * torch.log(((out - y) ** 2).mean(dim=(1, 2, 3)) + 1e-8).mean()


class Repeated(nn.Module):
    """RepVGG, ConvNeXt V2's norm of responses, and squeezes."""

    def __init__(self, w=6):
        super().__init__()
        self.big, self.small, self.own = (nn.Sequential(nn.Conv2d(3, w, 3, padding=1, bias=False), nn.BatchNorm2d(w)),
                                          nn.Sequential(nn.Conv2d(3, w, 1, bias=False), nn.BatchNorm2d(w)),
                                          nn.BatchNorm2d(w))
        self.depth, self.norm = nn.Conv2d(w, w, 7, padding=3, groups=w), nn.LayerNorm(w, eps=1e-6)
        self.up, self.down, self.out = nn.Linear(w, 4 * w), nn.Linear(4 * w, w), nn.Linear(w, 4)
        self.gamma, self.beta = (nn.Parameter(torch.rand(1, 1, 1, 4 * w)) for _ in range(2))

    def forward(self, x, labels):
        x = F.relu(self.big(x) + self.small(x))
        x = F.relu(self.own(x) + x)
        y = F.gelu(self.up(self.norm(self.depth(x).permute(0, 2, 3, 1))))
        size = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
        y = self.gamma * (y * (size / (size.mean(dim=-1, keepdim=True) + 1e-6))) + self.beta + y
        x = x + self.down(y).permute(0, 3, 1, 2)
        return F.cross_entropy(self.out(x.mean([-2, -1])), labels)


# ---- diffusion, codes ----

class Modulated(nn.Module):
    """DiT by hand: patches, places of sines, steps and classes that modulate; a guidance's classes are dropped."""

    def __init__(self, width=16, heads=2, classes=5):
        super().__init__()
        self.patch, self.heads = nn.Conv2d(4, width, 2, 2), heads
        self.time = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, width))
        self.classes, self.none = nn.Embedding(classes + 1, width), classes
        self.norm1, self.norm2, self.last = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(3))
        self.ada, self.final = nn.Linear(width, 6 * width), nn.Linear(width, 2 * width)
        self.qkv, self.proj, self.fc1, self.fc2 = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(
            width, 4 * width), nn.Linear(4 * width, width)
        self.out = nn.Linear(width, 16)
        self.register_buffer("places", torch.sin(torch.arange(16).float()[:, None] * torch.rand(width))[None])

    def steps(self, t):
        freqs = torch.exp(-math.log(10000) * torch.arange(0, 4, dtype=torch.float32) / 4)
        args = t[:, None].to(self.time[0].weight) * freqs[None]
        return self.time(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))

    def forward(self, x, t, y, drop, noise):
        y = torch.where(drop, self.none, y)
        c = F.silu(self.steps(t) + self.classes(y))
        h = self.patch(x).flatten(2).transpose(1, 2) + self.places
        n, l, w = h.shape
        shift, scale, gate, shift2, scale2, gate2 = self.ada(c).chunk(6, dim=1)
        z = self.norm1(h) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
        q, k, v = self.qkv(z).reshape(n, l, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        z = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, l, w)
        h = h + gate.unsqueeze(1) * self.proj(z)
        z = self.norm2(h) * (1 + scale2.unsqueeze(1)) + shift2.unsqueeze(1)
        h = h + gate2.unsqueeze(1) * self.fc2(F.gelu(self.fc1(z), approximate="tanh"))
        shift, scale = self.final(c).chunk(2, dim=1)
        h = self.out(self.last(h) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)).reshape(n, 4, 4, 2, 2, 4)
        h = torch.einsum("nhwpqc->nchpwq", h).reshape(n, 4, 8, 8)
        return ((h - noise) ** 2).mean(dim=list(range(1, 4))).mean()


class Preconditioned(nn.Module):
    """EDM: scales by sigma, features of a Fourier table, a loss that weighs; magnitudes kept as in its second paper."""

    def __init__(self, w=8):
        super().__init__()
        self.register_buffer("freqs", 2 * math.pi * torch.randn(8))
        self.register_buffer("phases", 2 * math.pi * torch.rand(8))
        self.a, self.b = nn.Parameter(torch.randn(w, 4, 3, 3)), nn.Parameter(torch.randn(3, w, 3, 3))
        self.emb, self.gain, self.logvar = nn.Linear(8, w), nn.Parameter(torch.zeros([])), nn.Linear(8, 1)

    def weight(self, w):
        size = torch.linalg.vector_norm(w, dim=[1, 2, 3], keepdim=True)
        return w / (1e-4 + size * (w[0].numel() ** -0.5)) / w[0].numel() ** 0.5

    def forward(self, x, noise, log_sigma):
        sigma = (log_sigma * 1.2 - 1.2).exp().reshape(-1, 1, 1, 1)
        noisy = x + noise * sigma
        skip = 0.25 / (sigma ** 2 + 0.25)
        out, into = sigma * 0.5 / (sigma ** 2 + 0.25).sqrt(), 1 / (0.25 + sigma ** 2).sqrt()
        y = sigma.flatten().log() / 4
        y = torch.cos(y.ger(self.freqs) + self.phases) * 2 ** 0.5
        h = into * noisy
        h = torch.cat([h, torch.ones_like(h[:, :1])], dim=1)
        h = F.conv2d(h, self.weight(self.a), padding=1)
        h = F.silu(h * (self.emb(y) + 1).unsqueeze(2).unsqueeze(3)) / 0.596
        d = skip * noisy + out * F.conv2d(h, self.weight(self.b), padding=1) * (1 + self.gain)
        logvar = self.logvar(y).reshape(-1, 1, 1, 1)
        weight = (sigma ** 2 + 0.25) / (sigma * 0.5) ** 2
        return ((weight / logvar.exp()) * (d - x) ** 2 + logvar).sum(dim=(1, 2, 3)).mean()


class Levels(nn.Module):
    """FSQ and lookup-free codes: rounded straight through, and entropies of what is chosen."""

    def __init__(self, w=4):
        super().__init__()
        self.into, self.out = nn.Conv2d(3, w, 4, 4), nn.ConvTranspose2d(w, 3, 4, 4)
        self.register_buffer("levels", torch.tensor([5.0, 5.0, 4.0, 3.0]).view(1, -1, 1, 1))

    def forward(self, x):
        z = self.into(x)
        half = (self.levels - 1) * (1 + 1e-3) / 2
        offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)
        bound = (z + (offset / half).atanh()).tanh() * half - offset
        code = bound + (bound.round() - bound).detach()
        y = self.out(code / (self.levels // 2))
        p = torch.sigmoid(4 * z)
        entropy = -(p * torch.log(p + 1e-5) + (1 - p) * torch.log(1 - p + 1e-5)).mean()
        sign = z + (torch.sign(z) - z).detach()
        return F.mse_loss(y, x) + 0.1 * entropy + 0.25 * F.mse_loss(z, sign.detach())


class Visible(nn.Module):
    """MAE: only places that stay are encoded; the order of all is an input."""

    def __init__(self, width=16, keep=5):
        super().__init__()
        self.keep, self.patch, self.token = keep, nn.Linear(48, width), nn.Parameter(torch.zeros(1, 1, width))
        self.places, self.deplaces = (nn.Parameter(torch.randn(1, 16, width) * 0.02) for _ in range(2))
        self.enc, self.dec = (nn.TransformerEncoderLayer(width, 2, 32, 0.0, batch_first=True) for _ in range(2))
        self.out = nn.Linear(width, 48)

    def forward(self, x, order, restore, mask):
        n = x.shape[0]
        p = x.reshape(n, 3, 4, 4, 4, 4)
        p = torch.einsum("nchpwq->nhwpqc", p).reshape(n, 16, 48)
        h = self.patch(p) + self.places
        kept = order[:, :self.keep]
        h = self.enc(torch.gather(h, dim=1, index=kept.unsqueeze(-1).repeat(1, 1, h.shape[2])))
        full = torch.cat([h, self.token.repeat(n, 16 - self.keep, 1)], dim=1)
        full = torch.gather(full, dim=1, index=restore.unsqueeze(-1).repeat(1, 1, h.shape[2]))
        y = self.out(self.dec(full + self.deplaces))
        mean, var = p.mean(dim=-1, keepdim=True), p.var(dim=-1, keepdim=True)
        loss = ((y - (p - mean) / (var + 1e-6) ** 0.5) ** 2).mean(dim=-1)
        return (loss * mask).sum() / mask.sum()


# ---- sound ----

class Separated(nn.Module):
    """Conv-TasNet: masks of an encoder's frames, and the ratio of a signal to its error as the loss."""

    def __init__(self, w=8, speakers=2):
        super().__init__()
        self.encode, self.decode = nn.Conv1d(1, w, 4, 2, bias=False), nn.ConvTranspose1d(w, 1, 4, 2, bias=False)
        self.norm, self.into, self.depth = nn.GroupNorm(1, w, eps=1e-8), nn.Conv1d(w, w, 1), nn.Conv1d(
            w, w, 3, padding=2, dilation=2, groups=w)
        self.act, self.gamma, self.beta = nn.PReLU(), nn.Parameter(torch.ones(1, w, 1)), nn.Parameter(
            torch.zeros(1, w, 1))
        self.mask, self.speakers = nn.Conv1d(w, w * speakers, 1), speakers

    def glob(self, y):
        mean = y.mean(dim=1, keepdim=True).mean(dim=2, keepdim=True)
        var = torch.pow(y - mean, 2).mean(dim=1, keepdim=True).mean(dim=2, keepdim=True)
        return self.gamma * (y - mean) / torch.pow(var + 1e-8, 0.5) + self.beta

    def forward(self, x, sources):
        frames = F.relu(self.encode(x.unsqueeze(1)))
        n, w, t = frames.shape
        y = self.into(self.norm(frames))
        y = y + self.glob(self.act(self.depth(y)))
        masks = torch.sigmoid(self.mask(y)).view(n, self.speakers, w, t)
        out = self.decode((masks * frames.unsqueeze(1)).view(n * self.speakers, w, t)).view(n, self.speakers, -1)
        a, b = (z - z.mean(-1, keepdim=True) for z in (out, sources))
        target = (a * b).sum(-1, keepdim=True) * b / ((b ** 2).sum(-1, keepdim=True) + 1e-8)
        ratio = (target ** 2).sum(-1) / (((a - target) ** 2).sum(-1) + 1e-8)
        return -(10 * torch.log10(ratio + 1e-8)).mean()


class Speaker(nn.Module):
    """ECAPA-TDNN: parts that add up, squeezes, statistics that attend, and a margin of angles."""

    def __init__(self, w=8, scale=4, classes=5):
        super().__init__()
        self.first, self.bn, self.scale = nn.Conv1d(6, w, 5, padding=2), nn.BatchNorm1d(w), scale
        self.parts = nn.ModuleList(
            nn.Conv1d(w // scale, w // scale, 3, padding=2, dilation=2) for _ in range(scale - 1))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(w, 4, 1), nn.ReLU(), nn.Conv1d(4, w, 1),
                                     nn.Sigmoid())
        self.attend = nn.Sequential(nn.Conv1d(3 * w, 4, 1), nn.ReLU(), nn.Tanh(), nn.Conv1d(4, w, 1), nn.Softmax(dim=2))
        self.fc, self.weight = nn.Linear(2 * w, 6), nn.Parameter(torch.randn(classes, 6))

    def forward(self, x, labels):
        x = self.bn(F.relu(self.first(x)))
        pieces = torch.split(x, x.shape[1] // self.scale, 1)
        made, sp = [], 0
        for i, conv in enumerate(self.parts):
            sp = pieces[i] if i == 0 else sp + pieces[i]
            sp = F.relu(conv(sp))
            made.append(sp)
        y = torch.cat([*made, pieces[-1]], 1)
        x = x + y * self.squeeze(y)
        t = x.size(-1)
        wide = torch.cat((x, torch.mean(x, dim=2, keepdim=True).repeat(1, 1, t), torch.sqrt(torch.var(
            x, dim=2, keepdim=True).clamp(min=1e-4)).repeat(1, 1, t)), dim=1)
        w = self.attend(wide)
        mu = torch.sum(x * w, dim=2)
        sg = torch.sqrt((torch.sum((x ** 2) * w, dim=2) - mu ** 2).clamp(min=1e-4))
        e = self.fc(torch.cat((mu, sg), 1))
        cosine = F.linear(F.normalize(e), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.mul(cosine, cosine)).clamp(0, 1))
        phi = cosine * math.cos(0.2) - sine * math.sin(0.2)
        phi = torch.where((cosine - math.cos(math.pi - 0.2)) > 0, phi, cosine - math.sin(math.pi - 0.2) * 0.2)
        one_hot = torch.zeros_like(cosine)
        one_hot.scatter_(1, labels.view(-1, 1), 1)
        return F.cross_entropy(((one_hot * phi) + ((1.0 - one_hot) * cosine)) * 30, labels)


class Periodic(nn.Module):
    """HiFi-GAN: snakes and dilated convolutions, judged at two periods, by features and by a spectrum."""

    def __init__(self, w=8):
        super().__init__()
        self.pre, self.up = nn.Conv1d(4, w, 7, padding=3), nn.ConvTranspose1d(w, w // 2, 8, 4, padding=2)
        self.res = nn.ModuleList(nn.Conv1d(w // 2, w // 2, 3, padding=d, dilation=d) for d in (1, 3))
        self.alpha, self.post = nn.Parameter(torch.ones(1, w // 2, 1)), nn.Conv1d(w // 2, 1, 7, padding=3)
        self.judge = nn.ModuleList(nn.Conv2d(1, 4, (5, 1), (3, 1), padding=(2, 0)) for _ in range(2))
        self.say = nn.ModuleList(nn.Conv2d(4, 1, (3, 1), padding=(1, 0)) for _ in range(2))
        self.register_buffer("window", torch.hann_window(8))

    def judged(self, i, x):
        period = (2, 3)[i]
        if x.shape[-1] % period:
            x = F.pad(x, (0, period - x.shape[-1] % period), "reflect")
        x = F.leaky_relu(self.judge[i](x.view(x.shape[0], 1, x.shape[-1] // period, period)), 0.1)
        return torch.flatten(self.say[i](x), 1, -1), x

    def spectrum(self, x):
        s = torch.view_as_real(torch.stft(x.squeeze(1), 8, 4, 8, self.window, center=True, pad_mode="reflect",
                                          normalized=False, onesided=True, return_complex=True))
        return torch.log(torch.clamp(torch.sqrt(s.pow(2).sum(-1) + 1e-9), min=1e-5))

    def forward(self, mel, wave):
        x = self.up(F.leaky_relu(self.pre(mel), 0.1))
        for conv in self.res:
            x = x + conv(x + (1.0 / (self.alpha + 1e-9)) * torch.sin(x * self.alpha).pow(2))
        x = torch.tanh(self.post(F.leaky_relu(x)))
        loss = 45 * F.l1_loss(self.spectrum(wave), self.spectrum(x))
        for i in range(2):
            (fake, a), (_, b) = self.judged(i, x), self.judged(i, wave)
            loss = loss + torch.mean((1 - fake) ** 2) + 2 * torch.mean(torch.abs(b - a))
        return loss


# ---- agents ----

class Categories(nn.Module):
    """C51: a distribution of returns is moved, and put back on its places; noisy layers."""

    def __init__(self, width=8, actions=3, atoms=7):
        super().__init__()
        self.a, self.mu, self.sigma = nn.Linear(4, width), nn.Parameter(torch.randn(actions * atoms, width) * 0.3), \
            nn.Parameter(torch.full((actions * atoms, width), 0.05))
        self.actions, self.atoms = actions, atoms
        self.register_buffer("support", torch.linspace(-3, 3, atoms))

    def net(self, x, noise_in, noise_out):
        h = F.relu(self.a(x))
        scale = lambda e: e.sign() * e.abs().sqrt()  # noqa: E731
        y = F.linear(h, self.mu) + F.linear(h * scale(noise_in), self.sigma) * scale(noise_out)
        return y.view(-1, self.actions, self.atoms)

    def forward(self, state, action, reward, after, done, noise_in, noise_out):
        with torch.no_grad():
            p = self.net(after, noise_in, noise_out).softmax(-1)
            best = (p * self.support).sum(-1).argmax(1)
            p = p.gather(1, best.view(-1, 1, 1).expand(-1, 1, self.atoms)).squeeze(1)
            moved = (reward[:, None] + 0.9 * (1 - done[:, None]) * self.support).clamp(-3, 3)
            share = (1 - (moved.unsqueeze(1) - self.support.view(1, -1, 1)).abs()).clamp(0, 1)
            target = (share * p.unsqueeze(1)).sum(-1)
        logp = self.net(state, noise_in, noise_out).log_softmax(-1)
        logp = logp.gather(1, action.view(-1, 1, 1).expand(-1, 1, self.atoms)).squeeze(1)
        return -(target * logp).sum(-1).mean()


class Dreamer(nn.Module):
    """A recurrent state space: categories straight through, two divergences, returns in symlog, two hot."""

    def __init__(self, w=8, cats=3, classes=4):
        super().__init__()
        self.cats, self.classes, self.cell = cats, classes, nn.GRUCell(cats * classes + 2, w)
        self.prior, self.post = nn.Linear(w, cats * classes), nn.Linear(w + 5, cats * classes)
        self.decode, self.reward = nn.Linear(w + cats * classes, 5), nn.Linear(w + cats * classes, 9)
        self.register_buffer("bins", torch.linspace(-4, 4, 9))

    def divergence(self, a, b):
        return (a.softmax(-1) * (a.log_softmax(-1) - b.log_softmax(-1))).sum((-1, -2))

    def forward(self, seen, actions, rewards):
        n, t, _ = seen.shape
        h, z, loss = seen.new_zeros(n, self.cell.hidden_size), seen.new_zeros(n, self.cats * self.classes), 0
        squashed = torch.sign(rewards) * torch.log1p(rewards.abs())
        for i in range(t):
            h = self.cell(torch.cat([z, actions[:, i]], -1), h)
            prior = self.prior(h).view(n, self.cats, self.classes)
            post = self.post(torch.cat([h, seen[:, i]], -1)).view(n, self.cats, self.classes)
            p = 0.99 * post.softmax(-1) + 0.01 / self.classes
            hard = F.one_hot(p.argmax(-1), self.classes).to(p)
            z = (hard + p - p.detach()).flatten(1)
            both = torch.cat([h, z], -1)
            two = (1 - (squashed[:, i, None] - self.bins).abs()).clamp(min=0)
            loss = loss + F.mse_loss(self.decode(both), seen[:, i]) - (two * self.reward(both).log_softmax(-1)).sum(
                -1).mean()
            free = torch.tensor(0.1).to(h)
            loss = loss + 0.5 * torch.maximum(self.divergence(post.detach(), prior), free).mean() + 0.1 * torch.maximum(
                self.divergence(post, prior.detach()), free).mean()
        return loss / t


class Episodes(nn.Module):
    """Prototypes of an episode each sample, and the same by ridge regression in closed form of two features."""

    def __init__(self, w=6):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, w), nn.ReLU(), nn.Linear(w, w))
        self.temperature = nn.Parameter(torch.tensor(2.0))

    def forward(self, support, query, labels):
        n, ways, shots, d = support.shape
        proto = self.net(support.view(n * ways * shots, d)).view(n, ways, shots, -1).mean(2)
        q = self.net(query)
        far = torch.cdist(q, proto, p=2.0) ** 2
        near = F.cosine_similarity(q.unsqueeze(2), proto.unsqueeze(1), dim=-1) * self.temperature.exp()
        return F.cross_entropy((near - far).flatten(0, 1), labels.flatten())


def orders():
    order = torch.stack([torch.randperm(16) for _ in range(BATCH)])
    return order, order.argsort(1), (order.argsort(1) >= 5).float()


MODELS = {
    "prototypes": lambda: (Episodes(), (reals(3, 2, 5), reals(4, 5), ids(4, below=3)), {}),
    "Dreamer": lambda: (Dreamer(), (reals(2, 5), reals(2, 2), reals(2)), {}),
    "C51, noisy": lambda: (Categories(), (reals(4), ids(below=3), reals(), reals(4), torch.rand(BATCH).round(),
                                          reals(8), reals(21)), {}),
    "UNet++": lambda: (Nested(), (reals(1, 8, 8), torch.rand(BATCH, 1, 8, 8).round()), {}),
    "V-Net": lambda: (Volumes(), (reals(1, 6, 6, 6), torch.rand(BATCH, 6, 6, 6).round()), {}),
    "involution, CBAM, ECA": lambda: (Involved(), (reals(3, 8, 8), ids(below=4)), {}),
    "CenterNet": lambda: (Spots(), (reals(3, 6, 6), torch.rand(BATCH, 2, 6, 6).pow(0.05).clamp(max=1), ids(3, below=36),
                                    reals(3, 2)), {}),
    "NAFNet": lambda: (Simple(), (reals(3, 8, 8), reals(3, 8, 8)), {}),
    "RepVGG, GRN": lambda: (Repeated(), (reals(3, 8, 8), ids(below=4)), {}),
    "DiT, by hand": lambda: (Modulated(), (reals(4, 8, 8), ids(below=50), ids(below=5), torch.rand(BATCH) < 0.3,
                                           reals(4, 8, 8)), {"below": {"t": 50}}),
    "EDM": lambda: (Preconditioned(), (reals(3, 6, 6), reals(3, 6, 6), reals()), {}),
    "MAE": lambda: (Visible(), (reals(3, 16, 16), *orders()), {}),
    "Conv-TasNet": lambda: (Separated(), (reals(16), reals(2, 16)), {}),
    "ECAPA-TDNN": lambda: (Speaker(), (reals(6, 10), ids(below=5)), {}),
    "HiFi-GAN": lambda: (Periodic(), (reals(4, 4), reals(1, 16)), {}),
    "FSQ": lambda: (Levels(), (reals(3, 8, 8),), {})}
REFUSED = {
    "SegNet": lambda: (Unpooled(), (reals(3, 8, 8), ids(8, 8, below=3)), {}),
    "RAFT": lambda: (Flow(), (reals(3, 8, 8), reals(3, 8, 8), reals(2, 8, 8)), {}),
    "YOLOv8's head": lambda: (Anchorless(), (reals(3, 8, 8), torch.rand(BATCH, 16, 4) * 3.5, torch.rand(BATCH, 16, 3),
                                             torch.rand(BATCH, 16, 1).round()), {})}
