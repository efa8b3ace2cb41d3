# Models of 2025 and 2026 that the other lists lack, as people write them: molecules, graphs, tables, series,
# recommenders, agents.  MODELS and REFUSED are as in latest_language.py.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from recent_modules import mlp
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- molecules, graphs, physics ----

class Smooth(nn.Module):
    """Boltz: an encoder of noisy atoms in windows of queries and keys, EDM's scales, a smooth lDDT and weights of
    atoms."""

    def __init__(self, width=8):
        super().__init__()
        self.atom, self.pos, self.pair = nn.Linear(4, width), nn.Linear(3, width, bias=False), nn.Linear(4, 2)
        self.q, self.kv, self.out, self.cond = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(
            width, 3), nn.Linear(1, 2 * width)

    def forward(self, feats, x, noise, level, mask):
        sigma = 16 * torch.exp(-1.2 + 1.5 * level)
        s = sigma[:, None, None]
        noisy = x + s * noise
        c_skip, c_out, c_in = 256 / (s ** 2 + 256), s * 16 / torch.sqrt(256 + s ** 2), 1 / torch.sqrt(s ** 2 + 256)
        scale, shift = self.cond(sigma.log()[:, None, None] * 0.25).chunk(2, -1)
        h = (self.atom(feats) + self.pos(c_in * noisy)) * (1 + scale) + shift
        n, t, c = h.shape
        d = x[:, :, None] - x[:, None]
        r = d.pow(2).sum(-1, keepdim=True)
        bias = self.pair(torch.cat([d, 1 / (1 + r)], -1)).permute(0, 3, 1, 2)
        k, v = self.kv(h).chunk(2, -1)
        split = lambda y: y.view(n, t, 2, -1).transpose(1, 2)  # noqa: E731
        a = split(self.q(h)) @ split(k).mT / (c // 2) ** 0.5 + bias + (1 - mask[:, None, None]) * -1e6
        h = h + (a.softmax(-1) @ split(v)).transpose(1, 2).reshape(n, t, c)
        y = c_skip * noisy + c_out * self.out(F.layer_norm(h, (c,)))
        mse = (((y - x) ** 2).sum(-1) * mask).sum(-1) / torch.sum(3 * mask, dim=-1)
        loss = torch.sum(mse * (sigma ** 2 + 256) / (sigma * 16) ** 2) / n
        true, got = torch.cdist(x, x), (y[:, :, None] - y[:, None] + 1e-6).norm(dim=-1)
        diff = torch.abs(true - got)
        eps = sum(torch.sigmoid(at - diff) for at in (0.5, 1.0, 2.0, 4.0)) / 4
        near = (true < 2.0).float() * (1 - torch.eye(t)) * (mask[:, :, None] * mask[:, None])
        lddt = torch.sum(eps * near, dim=(-1, -2)) / torch.sum(near, dim=(-1, -2)).clamp(min=1)
        return loss + (1.0 - lddt.mean(dim=0))


class Wired(nn.Module):
    """GraphGPS over dense adjacencies: messages of neighbours with gates, attention beside them, walks as places."""

    def __init__(self, width=8):
        super().__init__()
        self.into, self.walks = nn.Linear(4, width - 2), nn.Linear(3, 2)
        self.abde, self.c = nn.Linear(width, 4 * width), nn.Linear(1, width)
        self.attn, self.n1, self.n2 = nn.MultiheadAttention(width, 2, batch_first=True), nn.LayerNorm(
            width), nn.LayerNorm(width)
        self.ff, self.head = mlp(width, 16, width), nn.Linear(width, 1)

    def forward(self, x, adj, mask, y):
        a = ((adj + adj.transpose(1, 2)) > 1.1).float() * mask[:, None] * mask[:, :, None]
        deg = a.sum(-1)
        m = deg.clamp(min=1).reciprocal().unsqueeze(-1) * a
        powers, p = [], m
        for _ in range(3):
            p = p @ m
            powers.append(torch.diagonal(p, dim1=-2, dim2=-1))
        h = torch.cat([self.into(x), self.walks(torch.stack(powers, -1))], -1)
        A, B, D, E = self.abde(h).chunk(4, -1)
        e = torch.sigmoid(D[:, :, None] + E[:, None] + self.c(a.unsqueeze(-1))) * a.unsqueeze(-1)
        local = A + (e * B[:, None]).sum(2) / (e.sum(2) + 1e-6)
        g, _ = self.attn(h, h, h, key_padding_mask=mask == 0, need_weights=False)
        h = self.n1(h + F.relu(local)) + self.n2(h + g)
        h = h + self.ff(h)
        pooled = (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return F.l1_loss(self.head(pooled).squeeze(-1), y)


class Unrolled(nn.Module):
    """A simulator of fluids: Adaptive Fourier layers (AFNO), three steps unrolled with noise, relative errors."""

    def __init__(self, width=6):
        super().__init__()
        self.into, self.out = nn.Conv2d(2, width, 1), nn.Conv2d(width, 2, 1)
        self.w1, self.w2 = (nn.Parameter(0.2 * torch.randn(2, 2, width // 2, width // 2)) for _ in range(2))
        self.b1, self.b2 = (nn.Parameter(0.02 * torch.randn(2, 2, width // 2)) for _ in range(2))

    def mix(self, x):
        n, c, h, w = x.shape
        z = torch.fft.rfft2(x, dim=(2, 3), norm="ortho").permute(0, 2, 3, 1).reshape(n, h, w // 2 + 1, 2, c // 2)
        mul = lambda a, b: torch.einsum("...bi,bio->...bo", a, b)  # noqa: E731
        re = F.relu(mul(z.real, self.w1[0]) - mul(z.imag, self.w1[1]) + self.b1[0])
        im = F.relu(mul(z.imag, self.w1[0]) + mul(z.real, self.w1[1]) + self.b1[1])
        re, im = mul(re, self.w2[0]) - mul(im, self.w2[1]) + self.b2[0], mul(im, self.w2[0]) + mul(
            re, self.w2[1]) + self.b2[1]
        z = F.softshrink(torch.stack([re, im], dim=-1), lambd=0.01)
        z = torch.view_as_complex(z.contiguous()).reshape(n, h, w // 2 + 1, c).permute(0, 3, 1, 2)
        return torch.fft.irfft2(z, s=(h, w), dim=(2, 3), norm="ortho") + x

    def forward(self, x, noise, truth):
        x, loss = x + 0.01 * noise, 0
        for i in range(2):
            x = x + self.out(F.gelu(self.mix(self.into(x))))
            err = torch.linalg.vector_norm((x - truth[:, i]).flatten(1), dim=1)
            loss = loss + (err / torch.linalg.vector_norm(truth[:, i].flatten(1), dim=1)).mean()
        return loss


# ---- tables, series, recommenders ----

class Neighbours(nn.Module):
    """ModernNCA: a row's class is that of the other rows of its batch, weighed by how near they are; embeddings of
    numbers by periods."""

    def __init__(self, width=8, classes=3):
        super().__init__()
        self.classes, self.freq = classes, nn.Parameter(torch.randn(5, 4) * 0.3)
        self.lin, self.enc = nn.Parameter(torch.randn(5, 8, 3) * 0.3), nn.Linear(15, width)
        self.post = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x, y):
        z = 2 * math.pi * self.freq * x[..., None]
        z = torch.cat([torch.cos(z), torch.sin(z)], -1)
        z = F.relu((z[..., None, :] @ self.lin).squeeze(-2)).flatten(1)
        h = self.enc(z)
        h = h + self.post(h)
        d = (h[:, None] - h[None]).square().sum(-1).add(1e-8).sqrt()
        d = d.masked_fill(torch.eye(len(x), dtype=torch.bool), torch.inf)
        p = F.softmax(-d, dim=-1) @ F.one_hot(y, self.classes).to(d.dtype)
        return F.nll_loss(torch.log(p + 1e-7), y)


class Mixers(nn.Module):
    """TimeMixer: scales by pooling, seasons from fine to coarse, trends from coarse to fine, series normalised."""

    def __init__(self, t=16, ahead=4, width=6):
        super().__init__()
        self.ahead, self.embed = ahead, nn.Conv1d(1, width, 3, padding=1, padding_mode="circular", bias=False)
        self.down = nn.ModuleList(mlp(t >> i, t >> i + 1, t >> i + 1, act=nn.GELU) for i in range(2))
        self.up = nn.ModuleList(mlp(t >> 2 - i, t >> 1 - i, t >> 1 - i, act=nn.GELU) for i in range(2))
        self.cross, self.heads = mlp(width, 12, width, act=nn.GELU), nn.ModuleList(
            nn.Linear(t >> i, ahead) for i in range(3))
        self.proj, self.affine = nn.Linear(width, 1), nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        n, t, c = x.shape
        mean, std = x.mean(1, keepdim=True).detach(), torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) +
                                                              1e-5).detach()
        x = (x - mean) / std * self.affine
        xs = [x] + [F.avg_pool1d(x.permute(0, 2, 1), 2 << i, 2 << i).permute(0, 2, 1) for i in range(2)]
        xs = [self.embed(z.permute(0, 2, 1).reshape(n * c, 1, -1)).transpose(1, 2) for z in xs]
        seasons, trends = [], []
        for z in xs:
            front, end = z[:, :1].repeat(1, 2, 1), z[:, -1:].repeat(1, 2, 1)
            trend = F.avg_pool1d(torch.cat([front, z, end], dim=1).permute(0, 2, 1), 5, 1).permute(0, 2, 1)
            seasons.append((z - trend).permute(0, 2, 1))
            trends.append(trend.permute(0, 2, 1))
        s, out_s = seasons[0], [seasons[0]]
        for i, f in enumerate(self.down):
            s = seasons[i + 1] + f(s)
            out_s.append(s)
        trends.reverse()
        r, out_t = trends[0], [trends[0]]
        for i, f in enumerate(self.up):
            r = trends[i + 1] + f(r)
            out_t.append(r)
        out_t.reverse()
        zs = [x0 + self.cross((a + b).permute(0, 2, 1)) for x0, a, b in zip(xs, out_s, out_t)]
        zs = [self.proj(f(z.permute(0, 2, 1)).permute(0, 2, 1)).reshape(n, c, self.ahead).permute(0, 2, 1)
              for f, z in zip(self.heads, zs)]
        return F.mse_loss(torch.stack(zs, dim=-1).sum(-1) / self.affine * std + mean, y)


class Tails(nn.Module):
    """Lag-Llama and Moirai: a Student's t and a mixture by torch.distributions, over what was observed."""

    def __init__(self, width=12):
        super().__init__()
        self.net, self.args = mlp(6, 24, width), nn.Linear(width, 6)

    def forward(self, lags, y, observed):
        df, loc, scale, mu, sigma, w = self.args(self.net(lags)).unbind(-1)
        t = torch.distributions.StudentT(2.0 + F.softplus(df), loc, F.softplus(scale) + 1e-3, validate_args=False)
        g = torch.distributions.Normal(mu, F.softplus(sigma) + 1e-3, validate_args=False)
        logp = torch.logsumexp(torch.stack([F.logsigmoid(w) + t.log_prob(y), F.logsigmoid(-w) + g.log_prob(y)]), dim=0)
        return -(logp * observed).sum() / observed.sum().clamp_min(1.0)


class Wukong(nn.Module):
    """Wukong: dot products of compressed embeddings beside their linear mixtures, stacked; bags of several ids, with
    weights of their own."""

    def __init__(self, fields=3, width=6):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, width, mode="sum") for _ in range(fields))
        self.dense = mlp(4, 8, width)
        self.lcb, self.compress = nn.Parameter(torch.randn(4, 2) * 0.4), nn.Parameter(torch.randn(4, 3) * 0.4)
        self.norm, self.fm, self.residual = nn.LayerNorm(12), mlp(12, 16, 2 * width), nn.LayerNorm(width)
        self.top = mlp(4 * width, 8, 1)

    def forward(self, dense, a, b, c, w, y):
        xs = [self.dense(dense)] + [f(i, per_sample_weights=w) for f, i in zip(self.tables, (a, b, c))]
        x = torch.stack(xs, dim=1)
        n = x.shape[0]
        lin = (x.permute(0, 2, 1) @ self.lcb).permute(0, 2, 1)
        mixed = x.permute(0, 2, 1) @ self.compress
        fm = self.fm(self.norm(torch.bmm(x, mixed).flatten(1))).view(n, 2, -1)
        x = self.residual(torch.cat((fm, lin), dim=1) + x)
        return F.binary_cross_entropy_with_logits(self.top(x.flatten(1)).squeeze(1), y.float())


# ---- agents ----

class Latents(nn.Module):
    """TD-MPC2: latents in simplices, unrolled by actions, an ensemble of values by vmap's stacked weights, rewards in
    soft bins, losses that fade."""

    def __init__(self, width=8, bins=7, members=3):
        super().__init__()
        self.encoder, self.dynamics, self.reward = mlp(5, 16, width, act=nn.Mish), mlp(
            width + 2, 16, width, act=nn.Mish), mlp(width + 2, 16, bins, act=nn.Mish)
        self.w, self.b = nn.Parameter(torch.randn(members, width + 2, bins) * 0.3), nn.Parameter(
            torch.zeros(members, 1, bins))
        self.target = mlp(5, 16, width, act=nn.Mish).requires_grad_(False)
        self.bins, self.register = bins, None

    def simplex(self, x):
        return F.softmax(x.view(*x.shape[:-1], -1, 4), dim=-1).view(*x.shape)

    def soft(self, x):
        x = torch.clamp(torch.sign(x) * torch.log(1 + torch.abs(x)), -3, 3).squeeze(1)
        at = torch.floor((x + 3) / 1.0)
        off = ((x + 3) / 1.0 - at).unsqueeze(-1)
        soft = torch.zeros(x.shape[0], self.bins)
        at = at.long()
        soft = soft.scatter(1, at.unsqueeze(1), 1 - off)
        return soft.scatter(1, (at.unsqueeze(1) + 1) % self.bins, off)

    def forward(self, obs, actions, rewards):
        z = self.simplex(self.encoder(obs[:, 0]))
        loss = 0
        for t in range(2):
            za = torch.cat([z, actions[:, t]], dim=-1)
            logits = self.reward(za)
            values = torch.baddbmm(self.b, za.expand(3, -1, -1), self.w)
            goal = self.soft(rewards[:, t, None])
            z = self.simplex(self.dynamics(za))
            with torch.no_grad():
                nxt = self.simplex(self.target(obs[:, t + 1]))
            rho = 0.5 ** t
            loss = loss + rho * (20 * F.mse_loss(z, nxt) - 0.1 * (goal * F.log_softmax(logits, -1)).sum(-1).mean())
            for v in values.unbind(0):
                loss = loss - 0.1 * rho * (goal * F.log_softmax(v, dim=-1)).sum(-1, keepdim=True).mean() / 3
        return loss


class Offline(nn.Module):
    """IQL and CQL: expectiles of values, weights by advantages that are clipped, a penalty on what nobody did."""

    def __init__(self):
        super().__init__()
        self.q, self.v, self.mu = mlp(7, 16, 2), mlp(5, 16, 1), mlp(5, 16, 2)
        self.log_std, self.target = nn.Parameter(torch.zeros(2)), mlp(7, 16, 2).requires_grad_(False)

    def forward(self, obs, act, reward, nxt, done, others):
        with torch.no_grad():
            tq = torch.min(*self.target(torch.cat([obs, act], 1)).unbind(1))
            nv = self.v(nxt).squeeze(-1)
        v = self.v(obs).squeeze(-1)
        adv = tq - v
        v_loss = torch.mean(torch.abs(0.7 - (adv < 0).float()) * adv ** 2)
        q = self.q(torch.cat([obs, act], 1))
        goal = reward + (1.0 - done.float()) * 0.99 * nv
        q_loss = sum(F.mse_loss(x, goal) for x in q.unbind(1)) / 2
        wide = obs.unsqueeze(1).expand(-1, others.shape[1], -1)
        penalty = (torch.logsumexp(self.q(torch.cat([wide, others], -1)), dim=1) - q).mean()
        w = torch.exp(3.0 * adv.detach()).clamp(max=100.0)
        dist = torch.distributions.Independent(torch.distributions.Normal(
            torch.tanh(self.mu(obs)), self.log_std.clamp(-5, 2).exp(), validate_args=False), 1, validate_args=False)
        return v_loss + q_loss + 0.5 * penalty - torch.mean(w * dist.log_prob(act))


class Chunks(nn.Module):
    """ACT and pi0: a latent of the actions with its divergence, a prefix that all see and a suffix in blocks, flow
    from noise, padded actions."""

    def __init__(self, width=8):
        super().__init__()
        self.state, self.action, self.image = nn.Linear(3, width), nn.Linear(2, width), nn.Conv2d(3, width, 4, 4)
        self.time, self.latent = mlp(2 * width, width, width, act=nn.SiLU), nn.Linear(6 + 8, 4)
        self.z, self.attn, self.out = nn.Linear(2, width), nn.Linear(width, 3 * width), nn.Linear(width, 2)

    def forward(self, image, state, actions, noise, eps, t, pad):
        n, length, _ = actions.shape
        stats = self.latent(torch.cat([state, state.abs(), actions.flatten(1)], -1))
        mu, logvar = stats[:, :2], stats[:, 2:]
        latent = mu + logvar.div(2).exp() * eps
        kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
        at = t[:, None, None]
        x = at * noise + (1 - at) * actions
        frac = torch.linspace(0.0, 1.0, 4)
        period = 4e-3 * (4.0 / 4e-3) ** frac
        angle = (1.0 / period * 2 * math.pi)[None] * t[:, None]
        emb = torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)[:, None].expand(-1, length, -1)
        suffix = self.time(torch.cat([self.action(x), emb], dim=2))
        prefix = torch.cat([self.image(image).flatten(2).transpose(1, 2), self.z(latent)[:, None]], 1)
        h = torch.cat([prefix, self.state(state)[:, None], suffix], dim=1)
        ar = torch.tensor([0] * prefix.shape[1] + [1] + [1] + [0] * (length - 1))
        cum = torch.cumsum(ar[None].expand(n, -1), dim=1)
        real = torch.cat([torch.ones(n, prefix.shape[1] + 1, dtype=torch.bool), pad < 0.8], dim=1)
        mask = (cum[:, None] <= cum[:, :, None]) & (real[:, None] & real[:, :, None])
        q, k, v = self.attn(h).chunk(3, -1)
        w = torch.where(mask, torch.einsum("btd,bsd->bts", q, k) * q.shape[-1] ** -0.5, -2.3819763e38).softmax(-1)
        v_t = self.out((h + w @ v)[:, -length:])
        loss = (F.mse_loss(v_t, noise - actions, reduction="none") * (pad < 0.8).unsqueeze(-1)).mean()
        return loss + 0.1 * kld.sum(1).mean(0, True).squeeze(0)


MODELS = {
    "Boltz": lambda: (Smooth(), (reals(5, 4), reals(5, 3), reals(5, 3), reals(), (torch.rand(
        BATCH, 5) < 0.8).float()), {"own": True}),
    "GraphGPS": lambda: (Wired(), (reals(5, 4), torch.rand(BATCH, 5, 5), (torch.arange(5) < torch.randint(
        3, 6, (BATCH, 1))).float(), reals()), {"own": True}),
    "AFNO, unrolled": lambda: (Unrolled(), (reals(2, 4, 6), reals(2, 4, 6), reals(2, 2, 4, 6)), {}),
    "TimeMixer": lambda: (Mixers(), (reals(16, 2), reals(4, 2)), {}),
    "Student's t, a mixture": lambda: (Tails(), (reals(5, 6), reals(5), (torch.rand(BATCH, 5) < 0.7).float()), {
        "own": True}),
    "IQL, CQL": lambda: (Offline(), (reals(5), reals(2), reals(), reals(5), ids(below=2), reals(4, 2)), {
        "below": {"done": 2}}),
    "ACT, pi0": lambda: (Chunks(), (reals(3, 8, 8), reals(3), reals(4, 2), reals(4, 2), reals(2), torch.rand(
        BATCH), torch.rand(BATCH, 4)), {"own": True})}
REFUSED = {
    "ModernNCA": lambda: (Neighbours(), (reals(5), ids(below=3)), {}),
    "Wukong": lambda: (Wukong(), (reals(4), *(ids(3, below=20) for _ in range(3)), torch.rand(BATCH, 3), ids(
        below=2)), {"below": {"y": 2}}),
    "TD-MPC2": lambda: (Latents(), (reals(3, 5), reals(2, 2), reals(2)), {})}
