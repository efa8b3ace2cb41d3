# Models of ways to learn that the other lists lack, as people write them: flows, adversaries, reinforcement, states of
# complex numbers, layers that other layers make, losses of faces, boxes and counts.  Each of MODELS makes a module, its
# inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from field_modules import mlp
from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- flows ----

class Glow(nn.Module):
    """A norm by activations, a product of channels and its determinant, a coupling."""

    def __init__(self, c=4, width=8):
        super().__init__()
        self.shift, self.scale = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(0.1 * torch.randn(1, c, 1, 1))
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(c, c))[0])
        self.net = nn.Sequential(nn.Conv2d(c // 2, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, c, 3, padding=1))

    def forward(self, x):
        _, c, h, w = x.shape
        x = (x + self.shift) * torch.exp(self.scale)
        log = h * w * self.scale.sum() + h * w * torch.slogdet(self.weight)[1]
        a, b = F.conv2d(x, self.weight.view(c, c, 1, 1)).chunk(2, 1)
        t, s = self.net(a).chunk(2, 1)
        s = torch.sigmoid(s + 2)
        z = torch.cat([a, (b + t) * s], 1)
        prior = -0.5 * (z ** 2 + math.log(2 * math.pi)).sum((1, 2, 3))
        return -(prior + torch.log(s).sum((1, 2, 3)) + log).mean()


class GlowByParts(Glow):
    """The product by triangles, whose determinant is what lies on a diagonal."""

    def __init__(self, c=4):
        super().__init__(c)
        p, low, up = torch.linalg.lu(self.weight.detach())
        s = up.diagonal()
        del self.weight
        self.register_buffer("p", p)
        self.register_buffer("sign", s.sign())
        self.register_buffer("mask", torch.tril(torch.ones(c, c), -1))
        self.low, self.logs = nn.Parameter(low), nn.Parameter(s.abs().log())
        self.up = nn.Parameter(up.triu(1))

    def forward(self, x):
        _, c, h, w = x.shape
        low = self.low * self.mask + torch.eye(c)
        up = self.up * self.mask.t() + torch.diag(self.sign * self.logs.exp())
        a, b = F.conv2d(x, (self.p @ low @ up).view(c, c, 1, 1)).chunk(2, 1)
        t, s = self.net(a).chunk(2, 1)
        z = torch.cat([a, b * s.tanh().exp() + t], 1)
        return (0.5 * z.pow(2).flatten(1).sum(1) - s.tanh().flatten(1).sum(1) - h * w * self.logs.sum()).mean()


class Masked(nn.Linear):
    def __init__(self, a, b, mask):
        super().__init__(a, b)
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.linear(x, self.mask * self.weight, self.bias)


class Made(nn.Module):
    """MAF: masks say which inputs an output may know."""

    def __init__(self, n=4, width=12):
        super().__init__()
        a, b = torch.arange(n), torch.arange(width) % (n - 1)
        self.first = Masked(n, width, (b[:, None] >= a[None]).float())
        self.last = Masked(width, 2 * n, (a.repeat(2)[:, None] > b[None]).float())

    def forward(self, x):
        m, s = self.last(F.relu(self.first(x))).chunk(2, 1)
        z = (x - m) * torch.exp(-s)
        return -torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1).mean() + s.sum(1).mean()


class Bins(nn.Module):
    """A neural spline flow's quadratic piece: shares of bins, which of them an input is in."""

    def __init__(self, bins=4, width=12):
        super().__init__()
        self.net, self.bins = mlp(1, width, 2 * bins), bins

    def forward(self, x, given):
        w, h = self.net(given[:, None]).split(self.bins, -1)
        w, h = w.softmax(-1), h.softmax(-1)
        ends = F.pad(torch.cumsum(w, -1), (1, 0))
        at = (x[:, None] >= ends[:, 1:-1]).sum(-1, keepdim=True)
        low, wide, high = ends.gather(-1, at), w.gather(-1, at), h.gather(-1, at)
        base = F.pad(torch.cumsum(h, -1), (1, 0)).gather(-1, at)
        y = base + (x[:, None] - low) / wide * high
        return ((y - 0.5) ** 2).mean() - (high / wide).log().mean()


# ---- adversaries, autoencoders, diffusion ----

class Styled(nn.Module):
    """StyleGAN 2: filters that each sample's style scales, by groups; nearest upsampling; non-saturating loss."""

    def __init__(self, width=6):
        super().__init__()
        self.map, self.const = mlp(8, 8, 8), nn.Parameter(torch.randn(1, width, 4, 4))
        self.weight, self.affine = nn.Parameter(torch.randn(width, width, 3, 3)), nn.Linear(8, width)
        self.rgb, self.d = nn.Conv2d(width, 3, 1), nn.Sequential(nn.Conv2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.2),
                                                                 nn.Flatten(), nn.Linear(64, 1))

    def forward(self, z):
        z = z * torch.rsqrt(torch.mean(z ** 2, dim=1, keepdim=True) + 1e-8)
        s = self.affine(self.map(z)) + 1
        n, c = s.shape
        w = self.weight[None] * s[:, None, :, None, None]
        w = w * torch.rsqrt(w.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        x = F.interpolate(self.const.repeat(n, 1, 1, 1), scale_factor=2)
        x = x.reshape(1, n * c, 8, 8)
        x = F.conv2d(x, w.view(n * c, c, 3, 3), padding=1, groups=n)
        x = F.leaky_relu(x.reshape(n, c, 8, 8), 0.2)
        return F.softplus(-self.d(self.rgb(x))).mean()


class Penalty(nn.Module):
    """WGAN-GP: the critic's step, whose gradient is near 1 in length."""

    def __init__(self):
        super().__init__()
        self.d = mlp(6, 16, 1, act=nn.Tanh)

    def forward(self, real, fake, mix):
        x = (mix[:, None] * real + (1 - mix[:, None]) * fake).requires_grad_(True)
        g = torch.autograd.grad(self.d(x).sum(), x, create_graph=True)[0]
        return self.d(fake).mean() - self.d(real).mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()


class Cycle(nn.Module):
    """CycleGAN: the generators' step, instance norms, reflected borders, discriminators that stay."""

    def __init__(self, width=6):
        super().__init__()

        def generator():
            return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, width, 3), nn.InstanceNorm2d(width), nn.ReLU(True),
                                 nn.ConvTranspose2d(width, width, 3, 2, 1, 1), nn.ReLU(True), nn.Conv2d(
                                     width, 3, 3, 2, 1), nn.Tanh())
        self.g, self.f = generator(), generator()
        self.d = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(width, 1, 3, 1, 1))
        for p in self.d.parameters():
            p.requires_grad = False

    def forward(self, a, b):
        fake_b, fake_a = self.g(a), self.f(b)
        p, q = self.d(fake_b), self.d(fake_a)
        adversary = F.mse_loss(p, torch.ones_like(p)) + F.mse_loss(q, torch.ones(q.shape))
        cycle = F.l1_loss(self.f(fake_b), a) + F.l1_loss(self.g(fake_a), b)
        return adversary + 10 * cycle + 5 * (F.l1_loss(self.g(b), b) + F.l1_loss(self.f(a), a))


class Beta(nn.Module):
    """A convolutional beta-VAE by PyTorch's distributions, its noise an input."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 8))
        self.back = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Unflatten(1, (8, 4, 4)),
                                  nn.ConvTranspose2d(8, 1, 4, 2, 1))

    def forward(self, x, noise):
        mean, log = self.net(x).chunk(2, -1)
        q = torch.distributions.Normal(mean, (0.5 * log).exp())
        kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(
            mean))).sum(-1)
        y = self.back(q.mean + q.stddev * noise)
        each = F.binary_cross_entropy_with_logits(y, x, reduction="none").flatten(1).sum(-1)
        return (each + 4 * kl).mean()


class Drawn(Beta):
    """The same as most people write it: noise is drawn in forward."""

    def forward(self, x, noise):
        mean, log = self.net(x).chunk(2, -1)
        y = self.back(mean + torch.randn_like(log) * (0.5 * log).exp())
        return F.binary_cross_entropy_with_logits(y, x) - 0.5 * (1 + log - mean.pow(2) - log.exp()).mean()


class Codebooks(nn.Module):
    """EnCodec by hand: causal convolutions with weight norm, residual codebooks, gradients straight through."""

    def __init__(self, width=6, words=8):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.a, self.b = norm(nn.Conv1d(1, width, 4)), norm(nn.Conv1d(width, width, 4, stride=2))
        self.c, self.d = norm(nn.ConvTranspose1d(width, width, 4, stride=2)), norm(nn.Conv1d(width, 1, 3))
        self.tables = nn.ModuleList(nn.Embedding(words, width) for _ in range(2))

    def forward(self, x):
        z = F.elu(self.a(F.pad(x, (3, 0))))
        z = self.b(F.pad(z, (2, 0), mode="reflect")).transpose(1, 2)
        rest, total, commit = z, 0, 0
        for table in self.tables:
            apart = rest.pow(2).sum(-1, keepdim=True) - 2 * rest @ table.weight.t() + table.weight.pow(2).sum(-1)
            q = table(apart.argmin(-1))
            commit = commit + F.mse_loss(rest, q.detach()) + F.mse_loss(q, rest.detach())
            q = rest + (q - rest).detach()
            total, rest = total + q, rest - q.detach()
        y = F.elu(self.c(total.transpose(1, 2)))[..., :-2]
        return F.l1_loss(self.d(F.pad(y, (2, 0))), x) + 0.25 * commit


class Denoiser(nn.Module):
    """DDPM's U-Net: groups are normed, steps are added, attention in the middle, noise by a known schedule."""

    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("bar", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0))
        self.time = mlp(width, 32, width, act=nn.SiLU)
        self.first, self.down, self.up = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, 2, 1), \
            nn.Upsample(scale_factor=2, mode="nearest")
        self.norms = nn.ModuleList(nn.GroupNorm(4, n) for n in (width, width, 2 * width))
        self.qkv, self.proj = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)
        self.mid, self.last = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(2 * width, 3, 3, padding=1)
        self.width = width

    def forward(self, x, noise, t):
        a = self.bar.gather(-1, t).reshape(-1, 1, 1, 1)
        x = a.sqrt() * x + (1 - a).sqrt() * noise
        half = self.width // 2
        e = math.log(10000) / (half - 1)
        e = t.float()[:, None] * torch.exp(torch.arange(half, dtype=torch.float32) * -e)[None]
        e = self.time(torch.cat((e.sin(), e.cos()), dim=-1).to(x.dtype))
        h = first = self.first(x)
        h = self.down(F.silu(self.norms[0](h))) + e[:, :, None, None]
        n, c, rows, columns = h.shape
        q, k, v = self.qkv(self.norms[1](h)).chunk(3, dim=1)
        w = torch.einsum("bci,bcj->bij", q.flatten(2), k.flatten(2)) * c ** -0.5
        h = h + self.proj(torch.einsum("bij,bcj->bci", w.softmax(-1), v.flatten(2)).reshape(n, c, rows, columns))
        h = torch.cat([self.up(self.mid(F.silu(h))), first], 1)
        return F.mse_loss(self.last(F.silu(self.norms[2](h))), noise)


class Rays(nn.Module):
    """NeRF: frequencies, an exclusive product along the ray, colours that depend on directions, a skip."""

    def __init__(self, width=16, many=3):
        super().__init__()
        self.register_buffer("many", 2.0 ** torch.arange(many))
        wide = 3 + 6 * many
        self.a, self.b = mlp(wide, width, width), mlp(wide + width, width, width)
        self.sigma, self.colour = nn.Linear(width, 1), mlp(width + 3, width, 3)

    def forward(self, origin, direction, depth, colour):
        at = origin[:, None] + direction[:, None] * depth[..., None]
        e = torch.cat([at] + [f(at * k) for k in self.many for f in (torch.sin, torch.cos)], -1)
        h = F.relu(self.b(torch.cat([F.relu(self.a(e)), e], -1)))
        sigma = F.relu(self.sigma(h))[..., 0]
        seen = (direction / torch.norm(direction, dim=-1, keepdim=True))[:, None].expand(h.shape[:-1] + (3,))
        c = torch.sigmoid(self.colour(torch.cat([h, seen], -1)))
        d = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], 1e10)], -1)
        alpha = 1 - torch.exp(-sigma * d)
        t = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        w = alpha * t
        return torch.mean(((w[..., None] * c).sum(-2) + (1 - w.sum(-1, keepdim=True)) - colour) ** 2)


# ---- reinforcement ----

class Actor(nn.Module):
    """A2C by PyTorch's distributions: advantages of rewards along the steps (GAE)."""

    def __init__(self, width=16):
        super().__init__()
        self.body, self.pi, self.v = mlp(5, width, width, act=nn.Tanh), nn.Linear(width, 3), nn.Linear(width, 1)

    def forward(self, x, actions, rewards, done):
        h = torch.tanh(self.body(x))
        d, v = torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)
        with torch.no_grad():
            last, found = 0, []
            for t in reversed(range(rewards.size(1) - 1)):
                delta = rewards[:, t] + 0.99 * v[:, t + 1] * (1 - done[:, t]) - v[:, t]
                last = delta + 0.99 * 0.95 * (1 - done[:, t]) * last
                found.insert(0, last)
            a = torch.stack(found, 1)
            returns = a + v[:, :-1]
        log = d.log_prob(actions)[:, :-1]
        return -(log * a).mean() + 0.5 * F.mse_loss(v[:, :-1], returns) - 0.01 * d.entropy().mean()


class Soft(nn.Module):
    """SAC's policy: a normal density through tanh, two critics, a temperature."""

    def __init__(self, width=16):
        super().__init__()
        self.pi, self.q1, self.q2 = mlp(5, width, 4), mlp(7, width, 1), mlp(7, width, 1)
        self.log_alpha = nn.Parameter(torch.zeros(1))
        self.q1.requires_grad_(False), self.q2.requires_grad_(False)

    def forward(self, s, noise):
        mean, log = self.pi(s).chunk(2, -1)
        d = torch.distributions.Normal(mean, log.clamp(-20, 2).exp())
        u = mean + noise * d.scale
        a = torch.tanh(u)
        logp = (d.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(-1, keepdim=True)
        q = torch.min(self.q1(torch.cat([s, a], 1)), self.q2(torch.cat([s, a], 1)))
        return (self.log_alpha.exp().detach() * logp - q).mean() - (self.log_alpha * (logp + 2).detach()).mean()


class Quantile(nn.Module):
    """QR-DQN: quantiles beside quantiles of a target that stays."""

    def __init__(self, n=5, width=16):
        super().__init__()
        self.net, self.target, self.n = mlp(4, width, 3 * n), mlp(4, width, 3 * n), n
        self.register_buffer("tau", (torch.arange(n) + 0.5) / n)

    def forward(self, s, a, r, after, done):
        q = self.net(s).view(-1, 3, self.n)
        q = q.gather(1, a.view(-1, 1, 1).expand(-1, -1, self.n)).squeeze(1)
        with torch.no_grad():
            z = self.target(after).view(-1, 3, self.n)
            best = z.mean(2).argmax(1)
            z = z.gather(1, best.view(-1, 1, 1).expand(-1, 1, self.n)).squeeze(1)
            z = r[:, None] + 0.99 * (1 - done[:, None]) * z
        u = z.unsqueeze(1) - q.unsqueeze(2)
        huber = torch.where(u.abs() <= 1, 0.5 * u.pow(2), u.abs() - 0.5)
        return ((self.tau[None, :, None] - (u.detach() < 0).float()).abs() * huber).mean(2).sum(1).mean()


class Taught(nn.Module):
    """A student's feature maps and logits against a frozen teacher with batch norms in evaluation."""

    def __init__(self, width=6):
        super().__init__()

        def net(c):
            return nn.Sequential(nn.Conv2d(3, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=True))
        self.teacher, self.student = net(2 * width), net(width)
        self.th, self.sh, self.fit = nn.Linear(2 * width, 4), nn.Linear(width, 4), nn.Conv2d(width, 2 * width, 1)
        for p in [*self.teacher.parameters(), *self.th.parameters()]:
            p.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x, labels):
        with torch.no_grad():
            t = self.teacher(x)
            tl = self.th(t.mean((2, 3)))
        s = self.student(x)
        sl = self.sh(F.adaptive_avg_pool2d(s, 1).flatten(1))
        kd = F.kl_div(F.log_softmax(sl / 4, 1), F.softmax(tl / 4, 1), reduction="batchmean") * 16
        maps = (F.normalize(s.pow(2).mean(1).flatten(1)) - F.normalize(t.pow(2).mean(1).flatten(1))).pow(2).mean()
        return 0.1 * F.cross_entropy(sl, labels) + 0.9 * kd + maps + F.mse_loss(self.fit(s), t)


MODELS = {
    "Glow, by parts": lambda: (GlowByParts(), (reals(4, 6, 6),), {}),
    "MAF": lambda: (Made(), (reals(4),), {}),
    "spline flow": lambda: (Bins(), (torch.rand(BATCH), reals()), {}),
    "StyleGAN 2": lambda: (Styled(), (reals(8),), {}),
    "CycleGAN": lambda: (Cycle(), (reals(3, 8, 8), reals(3, 8, 8)), {}),
    "beta-VAE": lambda: (Beta(), (torch.rand(BATCH, 1, 8, 8), reals(4)), {}),
    "EnCodec": lambda: (Codebooks(), (reals(1, 16),), {}),
    "DDPM": lambda: (Denoiser(), (reals(3, 8, 8), reals(3, 8, 8), ids(below=100)), {"below": {"t": 100}}),
    "NeRF, exclusive": lambda: (Rays(), (reals(3), reals(3), torch.rand(BATCH, 5).cumsum(1), torch.rand(BATCH, 3)), {}),
    "A2C, GAE": lambda: (Actor(), (reals(4, 5), ids(4, below=3), reals(4), torch.rand(BATCH, 4).round()), {}),
    "SAC": lambda: (Soft(), (reals(5), reals(2)), {}),
    "QR-DQN": lambda: (Quantile(), (reals(4), ids(below=3), reals(), reals(4), torch.rand(BATCH).round()), {}),
    "distillation, frozen": lambda: (Taught(), (reals(3, 6, 6), ids(below=4)), {})}
REFUSED = {
    "Glow": lambda: (Glow(), (reals(4, 6, 6),), {}),
    "WGAN-GP": lambda: (Penalty(), (reals(6), reals(6), torch.rand(BATCH)), {}),
    "VAE, noise drawn": lambda: (Drawn(), (torch.rand(BATCH, 1, 8, 8), reals(4)), {})}
