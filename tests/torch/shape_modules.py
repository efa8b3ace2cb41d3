# Layers that other layers make, states of complex numbers, capsules, and losses of faces, boxes, counts and redundancy,
# as people write them.  Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from field_modules import mlp
from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- layers that are made, capsules, splines ----

class Capsules(nn.Module):
    """Capsules with three turns of routing; margins; a picture made again of the right one."""

    def __init__(self, classes=3, d=4):
        super().__init__()
        self.conv, self.primary = nn.Conv2d(1, 8, 3, 2), nn.Conv2d(8, 8, 3)
        self.w = nn.Parameter(0.2 * torch.randn(1, 2, classes, d, 4))
        self.back = nn.Sequential(nn.Linear(classes * d, 16), nn.ReLU(), nn.Linear(16, 49), nn.Sigmoid())

    @staticmethod
    def squash(x):
        n = (x ** 2).sum(-1, keepdim=True)
        return n / (1 + n) * x / torch.sqrt(n + 1e-8)

    def forward(self, x, y):
        u = self.primary(F.relu(self.conv(x)))
        u = self.squash(u.view(x.size(0), 2, 4))
        u_hat = torch.matmul(self.w, u[:, :, None, :, None]).squeeze(-1)
        still, b = u_hat.detach(), torch.zeros(*u_hat.shape[:3], 1, device=x.device)
        for i in range(3):
            c = F.softmax(b, dim=2)
            if i < 2:
                v = self.squash((c * still).sum(1, keepdim=True))
                b = b + (still * v).sum(-1, keepdim=True)
        v = self.squash((c * u_hat).sum(1))
        n, one = v.norm(dim=-1), F.one_hot(y, 3).to(x.dtype)
        loss = one * F.relu(0.9 - n) ** 2 + 0.5 * (1 - one) * F.relu(n - 0.1) ** 2
        again = self.back((v * one[..., None]).view(x.size(0), -1))
        return loss.sum(1).mean() + 0.0005 * ((again - x.view(x.size(0), -1)) ** 2).sum(1).mean()


class Hyper(nn.Module):
    """A network makes another's weights, of every sample its own."""

    def __init__(self, given=5, width=6):
        super().__init__()
        self.make, self.width = mlp(given, 16, 2 * width + width + width + 1), width

    def forward(self, z, x, y):
        w = self.width
        a, b, c, d = torch.split(self.make(z), [2 * w, w, w, 1], dim=1)
        h = torch.sin(torch.baddbmm(b.unsqueeze(1), x, a.view(-1, 2, w)))
        return F.mse_loss((torch.bmm(h, c.unsqueeze(-1)) + d.unsqueeze(1)).squeeze(-1), y)


class Conditional(nn.Module):
    """CondConv: filters mixed for each sample, by groups."""

    def __init__(self, width=6, experts=3):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(experts, width, 3, 3, 3) * 0.2), nn.Parameter(
            torch.randn(experts, width))
        self.route, self.fc = nn.Linear(3, experts), nn.Linear(width, 4)

    def forward(self, x, y):
        n, c, h, w = x.shape
        r = torch.sigmoid(self.route(F.adaptive_avg_pool2d(x, 1).flatten(1)))
        weight = torch.matmul(r, self.weight.view(len(self.weight), -1)).view(-1, c, 3, 3)
        x = F.conv2d(x.reshape(1, -1, h, w), weight, (r @ self.bias).view(-1), padding=1, groups=n)
        x = F.relu(x.view(n, -1, h, w))
        return F.cross_entropy(self.fc(x.mean([2, 3])), y)


class Bumps(nn.Module):
    """FastKAN, ChebyKAN: bumps of a normed input, then polynomials."""

    def __init__(self, a=4, b=6, c=3, grids=5, degree=3):
        super().__init__()
        self.norm, self.grid = nn.LayerNorm(a), nn.Parameter(torch.linspace(-2, 2, grids), requires_grad=False)
        self.spline, self.base = nn.Linear(a * grids, b, bias=False), nn.Linear(a, b)
        self.cheb = nn.Parameter(0.2 * torch.randn(b, c, degree + 1))
        self.register_buffer("arange", torch.arange(0, degree + 1, 1))

    def forward(self, x, y):
        e = torch.exp(-((self.norm(x)[..., None] - self.grid) / 1.0) ** 2)
        x = self.spline(e.view(*e.shape[:-2], -1)) + self.base(F.silu(x))
        x = torch.tanh(x).unsqueeze(-1).expand(-1, -1, len(self.arange))
        x = (x.clamp(-0.999, 0.999).acos() * self.arange).cos()
        return F.cross_entropy(torch.einsum("bid,iod->bo", x, self.cheb), y)


class Chebyshev(Bumps):
    """Polynomials by their recurrence."""

    def forward(self, x, y):
        x = self.spline(torch.exp(-(self.norm(x)[..., None] - self.grid) ** 2).flatten(1)) + self.base(F.silu(x))
        x = torch.tanh(x)
        t = torch.ones(*x.shape, len(self.arange), dtype=x.dtype)
        t[:, :, 1] = x
        for i in range(2, t.shape[-1]):
            t[:, :, i] = 2 * x * t[:, :, i - 1].clone() - t[:, :, i - 2].clone()
        return F.cross_entropy(torch.einsum("bid,iod->bo", t, self.cheb), y)


# ---- states of complex numbers ----

class Diagonal(nn.Module):
    """S4D: a kernel of complex exponentials, convolved by Fourier transforms."""

    def __init__(self, h=4, n=4, words=10):
        super().__init__()
        self.words, self.out, self.d = nn.Embedding(words, h), nn.Conv1d(h, 2 * h, 1), nn.Parameter(torch.randn(h))
        self.log_dt = nn.Parameter(torch.rand(h) * 2 - 3)
        self.c = nn.Parameter(torch.view_as_real(torch.randn(h, n, dtype=torch.cfloat)))
        self.log_a = nn.Parameter(torch.log(0.5 * torch.ones(h, n)))
        self.a = nn.Parameter(math.pi * torch.arange(n).float().repeat(h, 1))
        self.head = nn.Linear(h, words)

    def forward(self, x, y):
        u = self.words(x).transpose(1, 2)
        long = u.size(-1)
        dt, c, a = torch.exp(self.log_dt), torch.view_as_complex(self.c), -torch.exp(self.log_a) + 1j * self.a
        dta = a * dt.unsqueeze(-1)
        k = dta.unsqueeze(-1) * torch.arange(long, device=a.device)
        c = c * (torch.exp(dta) - 1.0) / a
        k = 2 * torch.einsum("hn, hnl -> hl", c, torch.exp(k)).real
        z = torch.fft.irfft(torch.fft.rfft(u, n=2 * long) * torch.fft.rfft(k, n=2 * long), n=2 * long)[..., :long]
        z = F.glu(self.out(F.gelu(z + u * self.d.unsqueeze(-1))), dim=-2)
        return F.cross_entropy(self.head(z.transpose(1, 2)).flatten(0, 1), y.flatten())


class Linear(nn.Module):
    """LRU: a diagonal recurrence of complex numbers, step by step."""

    def __init__(self, h=4, n=4):
        super().__init__()
        self.nu, self.theta = nn.Parameter(torch.rand(n).log()), nn.Parameter(torch.rand(n).log())
        self.br, self.bi = (nn.Parameter(torch.randn(n, h) * 0.5) for _ in "ab")
        self.cr, self.ci = (nn.Parameter(torch.randn(h, n) * 0.5) for _ in "ab")
        self.gamma, self.d = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.randn(h))

    def forward(self, x, y):
        lam = torch.exp(torch.complex(-torch.exp(self.nu), torch.exp(self.theta)))
        b = torch.complex(self.br, self.bi) * torch.exp(self.gamma).unsqueeze(-1)
        c, state, found = torch.complex(self.cr, self.ci), 0, []
        for i in range(x.size(1)):
            state = lam * state + x[:, i].to(b.dtype) @ b.T
            found.append((state @ c.T).real + x[:, i] * self.d)
        return F.mse_loss(torch.stack(found, 1), y)


class Implicit(nn.Module):
    """Hyena: filters that a small network makes of places, windowed, by Fourier transforms; gates."""

    def __init__(self, width=4, long=8):
        super().__init__()
        self.proj, self.short = nn.Linear(width, 3 * width), nn.Conv1d(3 * width, 3 * width, 3, padding=2,
                                                                       groups=3 * width)
        t = torch.linspace(0, 1, long)[:, None]
        self.register_buffer("z", torch.cat([t, torch.cos(2 * math.pi * t), torch.sin(2 * math.pi * t)], -1))
        self.net, self.out, self.bias = mlp(3, 8, width, act=nn.SiLU), nn.Linear(width, width), nn.Parameter(
            torch.randn(width))
        self.register_buffer("window", torch.exp(-t * torch.linspace(1, 4, width)))

    def forward(self, x, y):
        long = x.size(1)
        a, b, v = self.short(self.proj(x).transpose(1, 2))[..., :long].chunk(3, dim=1)
        k = (self.net(self.z) * self.window)[:long].T
        v = v * b
        n = 2 * long
        v = torch.fft.irfft(torch.fft.rfft(v, n=n) * torch.fft.rfft(k, n=n) / n, n=n, norm="forward")[..., :long] + \
            v * self.bias[:, None]
        return F.mse_loss(self.out((v * a).transpose(1, 2)), y)


# ---- pictures: places that are computed, boxes, likeness ----

class Sampler(nn.Module):
    """A spatial transformer: six numbers turn the picture."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.fc, self.head = nn.Linear(16, 6), nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(),
                                                             nn.Linear(400, 3))
        nn.init.normal_(self.fc.weight, std=0.05)
        self.fc.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def forward(self, x, y):
        grid = F.affine_grid(self.fc(self.net(x)).view(-1, 2, 3), x.size(), align_corners=False)
        return F.cross_entropy(self.head(F.grid_sample(x, grid, align_corners=False)), y)


class Boxes(nn.Module):
    """RetinaNet's head with boxes by complete IoU: where anchors match is given."""

    def __init__(self, width=6, anchors=2, classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.GroupNorm(2, width), nn.ReLU())
        self.cls, self.box = nn.Conv2d(width, anchors * classes, 3, padding=1), nn.Conv2d(width, anchors * 4, 3, 1, 1)
        at = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="xy"), -1) * 2 + 1
        self.register_buffer("at", at.view(16, 1, 2).repeat(1, anchors, 1).view(-1, 2))
        self.classes = classes

    def forward(self, x, label, aim, positive):
        x = self.body(x)
        n = x.shape[0]
        c = self.cls(x).permute(0, 2, 3, 1).reshape(n, -1, self.classes)
        t = self.box(x).permute(0, 2, 3, 1).reshape(n, -1, 4)
        centre, size = self.at + t[..., :2], 2 * torch.exp(t[..., 2:].clamp(max=4.0))
        p = torch.cat([centre - size / 2, centre + size / 2], -1)
        low, high = torch.max(p[..., :2], aim[..., :2]), torch.min(p[..., 2:], aim[..., 2:])
        inter = (high - low).clamp(min=0).prod(-1)
        wp, hp = (p[..., 2:] - p[..., :2]).unbind(-1)
        wa, ha = (aim[..., 2:] - aim[..., :2]).unbind(-1)
        iou = inter / (wp * hp + wa * ha - inter + 1e-7)
        hull = torch.max(p[..., 2:], aim[..., 2:]) - torch.min(p[..., :2], aim[..., :2])
        apart = ((p[..., :2] + p[..., 2:] - aim[..., :2] - aim[..., 2:]) ** 2).sum(-1) / 4
        v = 4 / math.pi ** 2 * (torch.atan(wa / ha) - torch.atan(wp / hp)) ** 2
        with torch.no_grad():
            alpha = v / (1 - iou + v + 1e-7)
        loss = 1 - iou + apart / (hull.pow(2).sum(-1) + 1e-7) + alpha * v
        s = c.sigmoid()
        one = F.one_hot(label, self.classes + 1)[..., 1:].to(c.dtype)
        focal = F.binary_cross_entropy_with_logits(c, one, reduction="none") * (
            one * 0.25 * (1 - s) ** 2 + (1 - one) * 0.75 * s ** 2)
        count = positive.sum().clamp(min=1)
        return focal.sum() / count + (loss * positive).sum() / count


class Sharper(nn.Module):
    """ESPCN: pixels shuffled, SSIM by a known window, total variation."""

    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, width, 5, padding=2), nn.Tanh(), nn.Conv2d(width, 4, 3, padding=1),
                                 nn.PixelShuffle(2))
        g = torch.exp(-(torch.arange(5) - 2.0) ** 2 / 4.5)
        self.register_buffer("window", torch.outer(g / g.sum(), g / g.sum())[None, None])

    def forward(self, x, y):
        x = self.net(x)
        a, b = F.conv2d(x, self.window, padding=2), F.conv2d(y, self.window, padding=2)
        va = F.conv2d(x * x, self.window, padding=2) - a ** 2
        vb = F.conv2d(y * y, self.window, padding=2) - b ** 2
        ab = F.conv2d(x * y, self.window, padding=2) - a * b
        ssim = (2 * a * b + 1e-4) * (2 * ab + 9e-4) / ((a ** 2 + b ** 2 + 1e-4) * (va + vb + 9e-4))
        tv = (x[..., 1:] - x[..., :-1]).abs().mean() + (x[:, :, 1:] - x[:, :, :-1]).abs().mean()
        return 1 - ssim.mean() + 0.1 * tv + torch.sqrt((x - y) ** 2 + 1e-6).mean()


class Gated(nn.Module):
    """Attention U-Net with squeezes (CBAM), by Tversky."""

    def __init__(self, c=4):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, c, 3, 2, 1)
        self.up = nn.ConvTranspose2d(c, c, 2, 2)
        self.wg, self.wx, self.psi = nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1), nn.Sequential(
            nn.Conv2d(c, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())
        self.fc, self.place, self.out = mlp(c, 2, c), nn.Conv2d(2, 1, 3, padding=1, bias=False), nn.Conv2d(2 * c, 1, 1)

    def forward(self, x, y):
        a = F.relu(self.a(x))
        b = F.relu(self.b(a))
        s = torch.sigmoid(self.fc(F.adaptive_avg_pool2d(b, 1).flatten(1)) + self.fc(F.adaptive_max_pool2d(
            b, 1).flatten(1)))
        b = b * s[:, :, None, None]
        b = b * torch.sigmoid(self.place(torch.cat([b.mean(1, keepdim=True), b.max(1, keepdim=True)[0]], 1)))
        g = self.up(b)
        a = a * self.psi(F.relu(self.wg(g) + self.wx(a)))
        p = torch.sigmoid(self.out(torch.cat([a, g], 1))).flatten(1)
        y = y.flatten(1)
        tp, fp, fn = (p * y).sum(1), (p * (1 - y)).sum(1), ((1 - p) * y).sum(1)
        return (1 - (tp + 1) / (tp + 0.3 * fp + 0.7 * fn + 1)).pow(0.75).mean()


# ---- losses ----

class Margins(nn.Module):
    """ArcFace: an angle is added to the label's."""

    def __init__(self, width=8, classes=5, s=8.0, m=0.3):
        super().__init__()
        self.net, self.weight = mlp(6, 16, width), nn.Parameter(torch.randn(classes, width))
        self.s, self.cos_m, self.sin_m = s, math.cos(m), math.sin(m)
        self.th, self.mm = math.cos(math.pi - m), math.sin(math.pi - m) * m

    def forward(self, x, y):
        cosine = F.linear(F.normalize(self.net(x)), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one = torch.zeros(cosine.size(), device=x.device)
        one.scatter_(1, y.view(-1, 1).long(), 1)
        return F.cross_entropy((one * phi + (1.0 - one) * cosine) * self.s, y)


class Redundant(nn.Module):
    """Barlow Twins: correlations of features over the batch."""

    def __init__(self, width=6):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, width))
        self.bn = nn.BatchNorm1d(width, affine=False, track_running_stats=False)

    def forward(self, a, b):
        c = self.bn(self.net(a)).T @ self.bn(self.net(b)) / len(a)
        on = torch.diagonal(c).add(-1).pow(2).sum()
        return on + 0.005 * (c.pow(2).sum() - torch.diagonal(c).pow(2).sum())


class Varied(nn.Module):
    """VICReg: variances and covariances over the batch."""

    def __init__(self, width=6):
        super().__init__()
        self.net = mlp(8, 16, width)

    def forward(self, a, b):
        x, y = self.net(a), self.net(b)
        loss = 25 * F.mse_loss(x, y)
        for z in (x, y):
            z = z - z.mean(dim=0)
            loss = loss + 25 * F.relu(1 - torch.sqrt(z.var(dim=0) + 1e-4)).mean() / 2
            c = z.T @ z / (len(z) - 1)
            loss = loss + (c.pow(2).sum() - c.diagonal().pow(2).sum()) / z.shape[1]
        return loss


class Overlap(nn.Module):
    """Dice of the whole batch, the root of a mean of squares, a standard deviation over the batch."""

    def __init__(self, c=4):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 2, 1))

    def forward(self, x, y, depth):
        p, d = self.net(x).chunk(2, 1)
        s, y = torch.sigmoid(p).contiguous().view(-1), (y > 0).to(x.dtype).view(-1)
        dice = 1 - (2.0 * (s * y).sum() + 1.0) / (s.sum() + y.sum() + 1.0)
        spread = d.std(0, unbiased=False).mean()
        loss = F.binary_cross_entropy_with_logits(p.reshape(-1), y) + dice
        return loss + torch.sqrt(F.mse_loss(d, depth)) - 0.1 * spread


class Centres(nn.Module):
    """Centre loss; a contrastive loss of pairs by distances."""

    def __init__(self, width=4):
        super().__init__()
        self.net, self.head, self.centre = mlp(6, 16, width), nn.Linear(width, 3), nn.Parameter(torch.randn(3, width))

    def forward(self, x, other, y, same):
        z, o = self.net(x), self.net(other)
        d = F.pairwise_distance(z, o)
        pairs = torch.mean(same * d.pow(2) + (1 - same) * torch.clamp(1.0 - d, min=0.0).pow(2))
        near = (z - self.centre.index_select(0, y)).pow(2).sum(1).mean()
        return F.cross_entropy(self.head(z), y) + 0.01 * near + pairs


class Counts(nn.Module):
    """Counts: Poisson, negative binomial, normal with a variance; ordinal classes (CORAL)."""

    def __init__(self):
        super().__init__()
        self.net, self.bias = mlp(6, 16, 5), nn.Parameter(torch.zeros(3))

    def forward(self, x, y, rank):
        rate, size, mean, var, score = self.net(x).unbind(1)
        loss = F.poisson_nll_loss(rate, y) + F.gaussian_nll_loss(mean, y, F.softplus(var) + 1e-3)
        n, mu = F.softplus(size) + 0.1, rate.exp()
        loss = loss - (torch.lgamma(y + n) - torch.lgamma(n) - torch.lgamma(y + 1) + n * torch.log(n / (n + mu))
                       + y * torch.log(mu / (n + mu))).mean()
        levels = (rank[:, None] > torch.arange(3)).to(x.dtype)
        return loss + F.binary_cross_entropy_with_logits(score[:, None] + self.bias, levels)


class Counted(Counts):
    """Without the gamma function."""

    def forward(self, x, y, rank):
        rate, size, mean, var, score = self.net(x).unbind(1)
        loss = F.poisson_nll_loss(rate, y) + F.gaussian_nll_loss(mean, y, F.softplus(var) + 1e-3)
        levels = (rank[:, None] > torch.arange(3)).to(x.dtype)
        return loss + F.binary_cross_entropy_with_logits(score[:, None] + self.bias, levels)


class Frozen(nn.Module):
    """LoRA as a layer around one that needs no gradient; prompts before the sequence."""

    class Layer(nn.Module):
        def __init__(self, base, r=2, alpha=4):
            super().__init__()
            self.base, self.scaling = base, alpha / r
            for p in base.parameters():
                p.requires_grad = False
            self.a, self.b = nn.Linear(base.in_features, r, bias=False), nn.Linear(r, base.out_features, bias=False)

        def forward(self, x):
            return self.base(x) + self.b(self.a(x)) * self.scaling

    def __init__(self, width=8):
        super().__init__()
        self.words, self.prompt = nn.Embedding(20, width), nn.Parameter(torch.randn(3, width))
        self.words.weight.requires_grad_(False)
        self.q, self.k, self.v = (Frozen.Layer(nn.Linear(width, width)) for _ in "qkv")
        self.head = nn.Linear(width, 4)

    def forward(self, x, y):
        x = torch.cat([self.prompt.unsqueeze(0).expand(x.shape[0], -1, -1), self.words(x)], 1)
        x = x + F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))
        return F.cross_entropy(self.head(x[:, -1]), y)


class Namesakes(nn.Module):
    """Parameters that are called as operators are."""

    def __init__(self):
        super().__init__()
        self.linear, self.transpose = nn.Linear(6, 8), nn.Linear(8, 8)
        self.select, self.mul = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8))

    def forward(self, x, y):
        h = self.transpose(self.linear(x)).tanh()
        return F.mse_loss((h * self.mul)[:, 0] + (self.select * h).sum(1), y)


MODELS = {
    "namesakes": lambda: (Namesakes(), (reals(6), torch.randn(BATCH)), {}),
    "capsules": lambda: (Capsules(), (torch.rand(BATCH, 1, 7, 7), ids(below=3)), {}),
    "hypernetwork": lambda: (Hyper(), (reals(5), reals(7, 2), reals(7)), {}),
    "CondConv": lambda: (Conditional(), (reals(3, 6, 6), ids(below=4)), {}),
    "ChebyKAN, recurrence": lambda: (Chebyshev(), (reals(4), ids(below=3)), {}),
    "S4D": lambda: (Diagonal(), (ids(8, below=10), ids(8, below=10)), {}),
    "LRU": lambda: (Linear(), (reals(5, 4), reals(5, 4)), {}),
    "Hyena": lambda: (Implicit(), (reals(8, 4), reals(8, 4)), {}),
    "spatial transformer": lambda: (Sampler(), (reals(1, 12, 12), ids(below=3)), {}),
    "ESPCN, SSIM": lambda: (Sharper(), (reals(1, 6, 6), reals(1, 12, 12)), {}),
    "attention U-Net, Tversky": lambda: (Gated(), (reals(1, 8, 8), torch.rand(BATCH, 1, 8, 8).round()), {}),
    "ArcFace": lambda: (Margins(), (reals(6), ids(below=5)), {}),
    "Barlow Twins": lambda: (Redundant(), (reals(8), reals(8)), {}),
    "dice of a batch": lambda: (Overlap(), (reals(1, 6, 6), reals(1, 6, 6), reals(1, 6, 6)), {}),
    "VICReg": lambda: (Varied(), (reals(8), reals(8)), {}),
    "centres, pairs": lambda: (Centres(), (reals(6), reals(6), ids(below=3), torch.rand(BATCH).round()), {}),
    "counts, no gamma": lambda: (Counted(), (reals(6), torch.rand(BATCH) * 5, ids(below=4)), {"below": {"rank": 4}}),
    "LoRA, prompts": lambda: (Frozen(), (ids(6, below=20), ids(below=4)), {}),
    "FastKAN, ChebyKAN": lambda: (Bumps(), (reals(4), ids(below=3)), {}),
    "RetinaNet, complete IoU": lambda: (Boxes(), (
        reals(3, 8, 8), ids(32, below=4), 4 * torch.rand(BATCH, 32, 4) + torch.tensor([0, 0, 4, 4]),
        torch.rand(BATCH, 32).round()), {"below": {"label": 4}}),
    "counts": lambda: (Counts(), (reals(6), torch.rand(BATCH) * 5, ids(below=4)), {"below": {"rank": 4}})}
