# Models of 2025 and 2026 that the other lists lack, as people write them: pictures and sound.  MODELS and REFUSED are
# as in latest_language.py.
# SPDX-License-Identifier: Apache-2.0
import copy
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from recent_modules import mlp
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- pictures ----

class Joint(nn.Module):
    """SD3: text and patches attend together with weights of their own, modulated by the time; errors weighed by the
    time's density."""

    def __init__(self, width=12, heads=2):
        super().__init__()
        self.heads, self.patch, self.text = heads, nn.Conv2d(4, width, 2, 2), nn.Linear(6, width)
        self.time, self.pooled = mlp(16, width, width, act=nn.SiLU), mlp(6, width, width, act=nn.SiLU)
        self.pos = nn.Parameter(torch.randn(1, 4, 4, width) * 0.1)
        self.mod = nn.ModuleList(nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width)) for _ in range(2))
        self.qkv, self.o = (nn.ModuleList(nn.Linear(width, k * width) for _ in range(2)) for k in (3, 1))
        self.qn, self.kn = (nn.ModuleList(nn.RMSNorm(width // heads) for _ in range(2)) for _ in range(2))
        self.ff = nn.ModuleList(mlp(width, 24, width, act=lambda: nn.GELU(approximate="tanh")) for _ in range(2))
        self.last, self.out = nn.Linear(width, 2 * width), nn.Linear(width, 16)

    def forward(self, x, text, pooled, noise, draw):
        u = torch.sigmoid(draw)
        sigma = 3.0 * u / (1 + 2.0 * u)
        s = sigma.view(-1, 1, 1, 1)
        noisy = (1 - s) * x + s * noise
        freqs = torch.exp(-math.log(10000) * torch.arange(0, 8).float() / 8)
        args = (sigma * 1000)[:, None].float() * freqs[None]
        c = self.time(torch.cat([torch.cos(args), torch.sin(args)], dim=-1)) + self.pooled(pooled)
        h, w = 3, 2
        top, left = (4 - h) // 2, (4 - w) // 2
        pos = self.pos[:, top:top + h, left:left + w].reshape(1, h * w, -1)
        streams = [self.patch(noisy).flatten(2).transpose(1, 2) + pos, self.text(text)]
        mods = [f(c)[:, None].chunk(6, dim=-1) for f in self.mod]
        q, k, v = [], [], []
        for i, (y, m) in enumerate(zip(streams, mods)):
            y = F.layer_norm(y, (y.shape[-1],), eps=1e-6) * (1 + m[1]) + m[0]
            a, b, d = self.qkv[i](y).reshape(y.shape[0], y.shape[1], 3, self.heads, -1).movedim(2, 0)
            q.append(self.qn[i](a))
            k.append(self.kn[i](b))
            v.append(d)
        q, k, v = (torch.cat(y, dim=1).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=False).transpose(1, 2).flatten(2)
        for i, (part, m) in enumerate(zip((y[:, :h * w], y[:, h * w:]), mods)):
            z = streams[i] + m[2] * self.o[i](part)
            streams[i] = z + m[5] * self.ff[i](F.layer_norm(z, (z.shape[-1],), eps=1e-6) * (1 + m[4]) + m[3])
        shift, scale = self.last(F.silu(c)).chunk(2, dim=1)
        y = self.out(F.layer_norm(streams[0], (12,)) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1))
        y = torch.einsum("nhwpqc->nchpwq", y.reshape(-1, h, w, 2, 2, 4)).reshape(-1, 4, h * 2, w * 2)
        weight = (-(torch.logit(sigma, eps=1e-4) ** 2) / 2).exp() / (sigma * (1 - sigma)).clamp(min=1e-3)
        loss = (weight.view(-1, 1, 1, 1) * (y.float() - (noise - x).float()) ** 2).reshape(x.shape[0], -1)
        return torch.mean(loss, 1).mean()


class Sana(nn.Module):
    """Sana: attention of ReLU features in linear time, with a row of ones, and gated convolutions in between."""

    def __init__(self, width=12, heads=2):
        super().__init__()
        self.heads, self.into = heads, nn.Conv2d(3, width, 1)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.table, self.t = nn.Parameter(torch.randn(6, width) * 0.3), nn.Linear(1, 6 * width)
        self.inverted, self.depth = nn.Conv2d(width, 48, 1), nn.Conv2d(48, 48, 3, 1, 1, groups=48)
        self.point, self.out = nn.Conv2d(24, width, 1, bias=False), nn.Linear(width, 3)

    def forward(self, x, t, y):
        x = self.into(x)
        b, c, h, w = x.shape
        x = x.flatten(2).permute(0, 2, 1)
        m = (self.table[None] + self.t(t[:, None]).reshape(b, 6, -1)).chunk(6, dim=1)
        z = F.layer_norm(x, (c,)) * (1 + m[1]) + m[0]
        q, k, v = self.qkv(z).reshape(b, h * w, 3, c).unbind(2)
        q, k, v = (u.transpose(-1, -2).reshape(b, self.heads, c // self.heads, -1) for u in (q, k, v))
        q, k = F.relu(q), F.relu(k).transpose(-1, -2)
        v = F.pad(v, (0, 0, 0, 1), mode="constant", value=1)
        z = torch.matmul(torch.matmul(v, k), q)
        z = z[:, :, :-1] / (z[:, :, -1:] + 1e-6)
        x = x + m[2] * self.proj(z.view(b, c, -1).permute(0, 2, 1))
        z = (F.layer_norm(x, (c,)) * (1 + m[4]) + m[3]).reshape(b, h, w, c).permute(0, 3, 1, 2)
        a, gate = torch.chunk(self.depth(F.silu(self.inverted(z))), 2, dim=1)
        x = x + m[5] * self.point(a * F.silu(gate)).reshape(b, c, -1).permute(0, 2, 1)
        return F.mse_loss(self.out(x), y)


class Scales(nn.Module):
    """VAR: pictures of growing sizes, each predicted from those before, enlarged; classes of codes at each place."""

    def __init__(self, width=12, codes=16, sizes=(1, 2, 3), heads=2):
        super().__init__()
        self.sizes, self.heads = sizes, heads
        self.book, self.phi = nn.Embedding(codes, 6), nn.Conv2d(6, 6, 3, padding=1)
        self.word, self.kind, self.level = nn.Linear(6, width), nn.Embedding(5, width), nn.Embedding(3, width)
        self.pos = nn.Parameter(torch.randn(1, sum(s * s for s in sizes), width) * 0.1)
        self.ada, self.scale = nn.Linear(width, 6 * width), nn.Parameter(torch.full((1, heads, 1, 1), 4.0).log())
        self.qkv, self.o, self.ff = nn.Linear(width, 3 * width), nn.Linear(width, width), mlp(width, 24, width)
        self.head = nn.Linear(width, codes)
        levels = torch.cat([torch.full((s * s,), i) for i, s in enumerate(sizes)]).view(1, -1)
        self.register_buffer("levels", levels)
        seen = levels.mT >= levels
        self.register_buffer("bias", torch.where(seen, 0.0, -torch.inf).reshape(1, 1, levels.numel(), -1))

    def forward(self, kind, a, b, c):
        n, last = kind.shape[0], self.sizes[-1]
        f, seen = torch.zeros(n, 6, last, last), []
        for i, idx in enumerate((a, b)):
            h = self.book(idx).transpose(1, 2).view(n, 6, self.sizes[i], self.sizes[i])
            h = F.interpolate(h, size=(last, last), mode="bicubic")
            f = f + h * 0.5 + self.phi(h) * 0.5
            s = self.sizes[i + 1]
            seen.append(F.interpolate(f, size=(s, s), mode="area").view(n, 6, -1).transpose(1, 2))
        sos = cond = self.kind(kind)
        x = torch.cat((sos.unsqueeze(1), self.word(torch.cat(seen, dim=1))), dim=1)
        x = x + self.level(self.levels.expand(n, -1)) + self.pos
        m = self.ada(F.silu(cond)).view(n, 1, 6, -1).unbind(2)
        y = F.layer_norm(x, (x.shape[-1],)) * m[2].add(1) + m[4]
        q, k, v = self.qkv(y).view(n, x.shape[1], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(dim=0)
        q, k = F.normalize(q, dim=-1).mul(self.scale.clamp_max(math.log(100)).exp()), F.normalize(k, dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, scale=1, attn_mask=self.bias)
        x = x + self.o(y.transpose(1, 2).reshape(n, x.shape[1], -1)).mul(m[0])
        x = x + self.ff(F.layer_norm(x, (x.shape[-1],)).mul(m[3].add(1)).add(m[5])).mul(m[1])
        target = torch.cat([a, b, c], dim=1)
        loss = F.cross_entropy(self.head(x).reshape(-1, 16), target.view(-1), label_smoothing=0.1, reduction="none")
        return (loss.view(n, -1) * torch.full((1, target.shape[1]), 1 / target.shape[1])).sum(dim=-1).mean()


class Grams(nn.Module):
    """DINOv3: patches alike as an earlier teacher has them, samples spread by their nearest, register tokens."""

    def __init__(self, width=12, registers=2):
        super().__init__()
        self.patch, self.registers = nn.Conv2d(3, width, 4, 4), registers
        self.tokens, self.scale = nn.Parameter(torch.randn(1, 1 + registers, width)), nn.Parameter(
            torch.full((width,), 0.1))
        self.block, self.norm = mlp(width, 24, width, act=nn.GELU), nn.LayerNorm(width)
        self.mix = nn.Linear(11, 11)
        self.teacher = nn.Conv2d(3, width, 4, 4).requires_grad_(False)

    def forward(self, x):
        y = torch.cat([self.tokens.expand(x.shape[0], -1, -1), self.patch(x).flatten(2).transpose(1, 2)], dim=1)
        y = y + self.scale * self.block(self.norm(self.mix(y.mT).mT))
        first, patches = y[:, 0], y[:, 1 + self.registers:]
        with torch.no_grad():
            t = F.normalize(self.teacher(x).flatten(2).transpose(1, 2).float(), dim=-1)
            target = torch.matmul(t, t.transpose(-1, -2))
            target[target < 0] = 0.0
        s = F.normalize(patches.float(), dim=-1)
        s = torch.matmul(s, s.transpose(-1, -2))
        gram = F.mse_loss(torch.where(s < 0, 0.0, s), target)
        f = F.normalize(first, eps=1e-8, p=2, dim=-1)
        with torch.no_grad():
            dots = torch.mm(f, f.t())
            dots = dots - 2 * torch.eye(len(f))
            near = torch.max(dots, dim=1)[1]
        apart = F.pairwise_distance(f, f[near], 2, 1e-8)
        return gram - 0.1 * torch.log(apart + 1e-8).mean()


class Sliced(nn.Module):
    """LeJEPA: views predict their mean; slices of the batch are compared with a normal density."""

    def __init__(self, width=8):
        super().__init__()
        self.net = mlp(10, 16, width, act=nn.GELU)
        knots = torch.linspace(0, 3, 5)
        weights = torch.full((5,), 2 * 3 / 4)
        weights[[0, -1]] = 3 / 4
        window = torch.exp(-knots.square() / 2.0)
        for name, x in (("t", knots), ("phi", window), ("weights", weights * window), (
                "slices", torch.randn(width, 6))):
            self.register_buffer(name, x)

    def forward(self, views):
        z = self.net(views)
        inv = (z.mean(1, keepdim=True) - z).square().mean()
        a = self.slices.div(self.slices.norm(p=2, dim=0))
        x = (z.transpose(0, 1) @ a).unsqueeze(-1) * self.t
        err = (x.cos().mean(-3) - self.phi).square() + x.sin().mean(-3).square()
        return 0.95 * inv + 0.05 * ((err @ self.weights) * z.size(0)).mean()


class Slots(nn.Module):
    """Slot attention: slots compete for places in turns, a GRU cell updates them, pictures are mixtures of theirs."""

    def __init__(self, width=8, slots=3):
        super().__init__()
        self.slots, self.encode = slots, nn.Conv2d(3, width, 3, padding=1)
        self.k, self.v, self.q = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gru, self.start = nn.GRUCell(width, width), nn.Parameter(torch.randn(1, slots, width))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(width) for _ in range(3))
        self.ff, self.decode = mlp(width, 16, width), nn.Conv2d(width, 4, 3, padding=1)
        self.pos = nn.Parameter(torch.randn(1, width, 4, 4))

    def forward(self, x):
        y = self.n1(self.encode(x).flatten(2).permute(0, 2, 1))
        n, _, d = y.shape
        k, v = self.k(y) * d ** -0.5, self.v(y)
        slots = self.start.expand(n, -1, -1)
        for _ in range(2):
            before = slots
            attn = torch.einsum("bid,bjd->bij", k, self.q(self.n2(slots))).softmax(dim=-1) + 1e-8
            attn = attn / torch.sum(attn, dim=1, keepdim=True)
            updates = torch.einsum("bij,bid->bjd", attn, v)
            slots = self.gru(updates.reshape(-1, d), before.reshape(-1, d)).reshape(n, -1, d)
            slots = slots + self.ff(self.n3(slots))
        z = slots.reshape(-1, d)[:, :, None, None].repeat(1, 1, 4, 4) + self.pos
        z = self.decode(z).view(n, self.slots, 4, 4, 4)
        rgb, alpha = z.split([3, 1], dim=2)
        return F.mse_loss((rgb * alpha.softmax(dim=1)).sum(dim=1), x)


class Asked(nn.Module):
    """Mask2Former: queries attend where their masks before said so; masks by sampled points."""

    def __init__(self, width=8, queries=3, heads=2):
        super().__init__()
        self.heads, self.pixel = heads, nn.Conv2d(3, width, 3, padding=1)
        self.feat, self.embed = nn.Embedding(queries, width), nn.Embedding(queries, width)
        self.attn, self.classes, self.mask = nn.MultiheadAttention(width, heads), nn.Linear(width, 4), mlp(
            width, width, width)
        self.norm = nn.LayerNorm(width)

    def heads_of(self, out, pixels):
        out = self.norm(out).transpose(0, 1)
        masks = torch.einsum("bqc,bchw->bqhw", self.mask(out), pixels)
        small = F.interpolate(masks, size=(3, 3), mode="bilinear", align_corners=False)
        hide = (small.sigmoid().flatten(2).unsqueeze(1).repeat(1, self.heads, 1, 1).flatten(0, 1) < 0.5).bool()
        return self.classes(out), masks, hide.detach()

    def forward(self, x, labels, truth, points):
        pixels = self.pixel(x)
        n = x.shape[0]
        src = F.avg_pool2d(pixels, 2).flatten(2).permute(2, 0, 1)
        embed, out = self.embed.weight.unsqueeze(1).repeat(1, n, 1), self.feat.weight.unsqueeze(1).repeat(1, n, 1)
        classes, masks, hide = self.heads_of(out, pixels)
        hide = hide & ~hide.all(-1, keepdim=True)
        out = out + self.attn(out + embed, src, src, attn_mask=hide, need_weights=False)[0]
        classes, masks, _ = self.heads_of(out, pixels)
        grid = 2.0 * points.unsqueeze(2) - 1.0
        got, want = (F.grid_sample(m, grid, align_corners=False).squeeze(3) for m in (masks, truth))
        bce = F.binary_cross_entropy_with_logits(got, want, reduction="none").mean(2).sum()
        p = got.sigmoid()
        dice = (1 - (2 * (p * want).sum(-1) + 1) / (p.sum(-1) + want.sum(-1) + 1)).sum()
        weight = torch.tensor([1.0, 1.0, 1.0, 0.1])
        return F.cross_entropy(classes.transpose(1, 2), labels, weight) + (bce + dice) / (3 * n)


class Teachers(nn.Module):
    """FixMatch and a mean teacher: labels of those that are sure, of a weak view; a copy that no gradient reaches."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6), nn.ReLU(True), nn.AdaptiveAvgPool2d(1),
                                 nn.Flatten(), nn.Linear(6, 4))
        self.mean = copy.deepcopy(self.net).requires_grad_(False)

    def forward(self, x, labels, weak, strong):
        loss = F.cross_entropy(self.net(x), labels)
        with torch.no_grad():
            p, guess = torch.softmax(self.net(weak) / 0.4, dim=-1).max(dim=-1)
            mask = p.ge(0.4).float()
        loss = loss + (F.cross_entropy(self.net(strong), guess, reduction="none") * mask).mean()
        with torch.no_grad():
            soft = self.mean(weak).softmax(1)
        return loss + F.mse_loss(self.net(strong).softmax(1), soft)


# ---- sound ----

class Zip(nn.Module):
    """Zipformer: Swoosh, a norm whose length a bias takes part in, half the frames by softmax weights, enlarged again
    by repetition, a bypass between limits."""

    def __init__(self, width=8):
        super().__init__()
        self.into, self.bias, self.scale = nn.Linear(5, width), nn.Parameter(torch.randn(width) * 0.1), nn.Parameter(
            torch.zeros(()))
        self.down, self.bypass = nn.Parameter(torch.randn(2) * 0.3), nn.Parameter(torch.full((width,), 0.5))
        self.ff, self.mid, self.out = nn.Linear(width, 16), nn.Linear(16, width), nn.Linear(width, 6)
        self.conv, self.edge = nn.Conv1d(width, width, 3, padding=0, groups=width), nn.Parameter(torch.zeros(width, 4))

    def norm(self, x):
        return x / torch.mean((x - self.bias) ** 2, dim=-1, keepdim=True) ** 0.5 * self.scale.exp()

    def forward(self, x, lengths, y):
        x = self.into(x)
        n, t, c = x.shape
        pad = torch.arange(t)[None] >= lengths[:, None]
        d = (t + 1) // 2
        z = torch.cat((x, x[:, -1:].expand(-1, 2 * d - t, -1)), dim=1)
        z = (z.reshape(n, d, 2, c) * self.down.softmax(dim=0).unsqueeze(-1)).sum(dim=2)
        z = self.ff(z)
        z = self.mid(torch.logaddexp(torch.zeros(()), z - 4.0) - 0.08 * z - 0.035)
        z = z.unsqueeze(2).expand(n, d, 2, c).reshape(n, 2 * d, c)[:, :t]
        x = x + (z - x) * self.bypass.clamp(min=0.2, max=1.0)
        x = x.masked_fill(pad.unsqueeze(-1), 0.0).transpose(1, 2)
        left = 1.0 + torch.cat([self.edge, self.edge.new_zeros(c, t - 4)], -1)
        x = self.norm((self.conv(F.pad(x, (1, 1))) * left).transpose(1, 2))
        loss = F.cross_entropy(self.out(x).transpose(1, 2), y, reduction="none").masked_fill(pad, 0.0)
        return loss.sum() / (~pad).sum()


class Quantisers(nn.Module):
    """BEST-RQ: frozen projections name each frame by its nearest code; masked frames are told apart."""

    def __init__(self, codes=12):
        super().__init__()
        self.encoder, self.head = mlp(8, 16, 16), nn.Linear(16, 2 * codes)
        self.codes, self.token = codes, nn.Parameter(torch.randn(8) * 0.1)
        self.register_buffer("proj", torch.randn(2, 8, 4))
        self.register_buffer("book", F.normalize(torch.randn(2, codes, 4), dim=-1))

    def forward(self, x, mask):
        n, t, _ = x.shape
        y = F.normalize(torch.einsum("btd,hde->bthe", F.layer_norm(x, (8,)), self.proj), dim=-1)
        with torch.no_grad():
            goal = (2 - 2 * torch.einsum("bthe,hce->bthc", y, self.book)).argmin(dim=-1)
        hidden = mask < 0.4
        x = torch.where(hidden.unsqueeze(-1), self.token, x)
        logits = self.head(self.encoder(x)).view(n, t, 2, self.codes)
        loss = F.cross_entropy(logits.permute(0, 3, 1, 2), goal, reduction="none")
        return (loss * hidden.unsqueeze(-1)).sum() / (hidden.sum() * 2)


class Spectral(nn.Module):
    """Vocos: ConvNeXt layers say lengths and angles of a spectrum, whose frames are added up again; compared by mel
    spectra."""

    def __init__(self, width=8, fft=8, hop=4):
        super().__init__()
        self.fft, self.hop, self.embed = fft, hop, nn.Conv1d(5, width, 7, padding=3)
        self.dw, self.norm = nn.Conv1d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.pw, self.gamma, self.out = mlp(width, 16, width, act=nn.GELU), nn.Parameter(torch.ones(width)), nn.Linear(
            width, fft + 2)
        self.register_buffer("window", torch.hann_window(fft))
        self.register_buffer("mel", torch.rand(fft // 2 + 1, 3))

    def forward(self, x, wave):
        x = self.embed(x)
        x = x + (self.gamma * self.pw(self.norm(self.dw(x).transpose(1, 2)))).transpose(1, 2)
        mag, p = self.out(x.transpose(1, 2)).transpose(1, 2).chunk(2, dim=1)
        mag = torch.clip(torch.exp(mag), max=1e2)
        s = mag * (torch.cos(p) + 1j * torch.sin(p))
        frames = torch.fft.irfft(s, self.fft, dim=1, norm="backward") * self.window[None, :, None]
        size = (frames.shape[2] - 1) * self.hop + self.fft
        y = F.fold(frames, output_size=(1, size), kernel_size=(1, self.fft), stride=(1, self.hop))[:, 0, 0]
        squares = self.window.square().expand(1, frames.shape[2], -1).transpose(1, 2)
        envelope = F.fold(squares, (1, size), (1, self.fft), stride=(1, self.hop)).squeeze()
        y = (y / (envelope + 1e-3))[:, 4:-4]
        got, want = (torch.log(torch.clip(torch.fft.rfft(z.unfold(1, 8, 4) * self.window, dim=-1).abs() @ self.mel,
                                          min=1e-2)) for z in (y, wave))
        return F.l1_loss(got, want)


MODELS = {
    "SD3, by hand": lambda: (Joint(), (reals(4, 6, 4), reals(5, 6), reals(6), reals(4, 6, 4), reals()), {}),
    "Sana": lambda: (Sana(), (reals(3, 4, 4), torch.rand(BATCH), reals(16, 3)), {}),
    "DINOv3, Gram": lambda: (Grams(), reals(3, 8, 16), {}),
    "LeJEPA": lambda: (Sliced(), reals(3, 10), {}),
    "slot attention": lambda: (Slots(), reals(3, 4, 4), {}),
    "Zipformer": lambda: (Zip(), (reals(7, 5), torch.randint(3, 8, (BATCH,)), ids(7, below=6)), {
        "below": {"lengths": 8}, "own": True}),
    "FixMatch, mean teacher": lambda: (Teachers(), (reals(3, 6, 6), ids(below=4), reals(3, 6, 6), reals(3, 6, 6)), {}),
    "BEST-RQ": lambda: (Quantisers(), (reals(6, 8), torch.rand(BATCH, 6)), {"own": True})}
REFUSED = {
    "VAR": lambda: (Scales(), (ids(below=5), ids(1, below=16), ids(4, below=16), ids(9, below=16)), {}),
    "Mask2Former": lambda: (Asked(), (reals(3, 6, 6), ids(3, below=4), torch.rand(BATCH, 3, 6, 6), torch.rand(
        BATCH, 7, 2)), {"own": True}),
    "Vocos": lambda: (Spectral(), (reals(5, 6), reals(20)), {})}
