# Models of 2025 and 2026 that the other lists lack, as people write them: codes, molecules, weather, series,
# recommenders, agents, and ways to learn from other networks.  Each of MODELS makes a module, its inputs, and options
# of the export; what each of REFUSED does is said in a sentence.
# SPDX-License-Identifier: Apache-2.0
import copy
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from recent_modules import WORDS, mlp
from today_modules import BATCH, ids, reals
from torch.nn.utils import parametrize

nn = torch.nn


# ---- codes ----

class Blurred(nn.Module):
    """Stable Diffusion's autoencoder: attention in the middle, a normal density whose logarithm is clamped, features
    of a frozen network (LPIPS), a discriminator's opinion."""

    def __init__(self, width=8, latent=2):
        super().__init__()
        self.into, self.down = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, 2)
        self.norm, self.qkv, self.proj = nn.GroupNorm(4, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width,
                width, 1)
        self.moments, self.post = nn.Conv2d(width, 2 * latent, 1), nn.Conv2d(latent, width, 1)
        self.up, self.out = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.seen = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(inplace=True), nn.Conv2d(6, 6, 3)).requires_grad_(False)
        self.lin = nn.Conv2d(6, 1, 1, bias=False).requires_grad_(False)
        self.disc = nn.Sequential(nn.Conv2d(3, 6, 4, 2), nn.LeakyReLU(0.2), nn.Conv2d(6, 1, 3)).requires_grad_(False)
        self.logvar = nn.Parameter(torch.zeros(()))

    def attend(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, 1)
        q, k = q.reshape(b, c, h * w).permute(0, 2, 1), k.reshape(b, c, h * w)
        w_ = F.softmax(torch.bmm(q, k) * int(c) ** -0.5, dim=2)
        y = torch.bmm(v.reshape(b, c, h * w), w_.permute(0, 2, 1)).reshape(b, c, h, w)
        return x + self.proj(y)

    def apart(self, x, y):
        a, b = (self.seen(z) for z in (x, y))
        a, b = (z / (torch.sqrt(torch.sum(z ** 2, dim=1, keepdim=True)) + 1e-10) for z in (a, b))
        return self.lin((a - b) ** 2).mean([2, 3], keepdim=True)

    def forward(self, x, noise):
        h = self.attend(self.down(F.pad(self.into(x), (0, 1, 0, 1))))
        mean, logvar = torch.chunk(self.moments(h), 2, dim=1)
        logvar = torch.clamp(logvar, -30.0, 20.0)
        z = mean + torch.exp(0.5 * logvar) * noise
        y = self.out(F.silu(self.up(F.interpolate(self.post(z), scale_factor=2.0))))
        rec = torch.abs(x.contiguous() - y.contiguous()) + self.apart(x, y)
        nll = torch.sum(rec / torch.exp(self.logvar) + self.logvar) / x.shape[0]
        kl = 0.5 * torch.sum(mean.pow(2) + logvar.exp() - 1.0 - logvar, dim=[1, 2, 3])
        return nll + 1e-2 * torch.sum(kl) / kl.shape[0] - 0.5 * torch.mean(self.disc(y))


class Turned(nn.Module):
    """VQ-VAE with the rotation trick: gradients go to the encoder turned as its vectors are to the codes."""

    def __init__(self, width=6, codes=8):
        super().__init__()
        self.encoder, self.decoder, self.book = nn.Conv1d(2, width, 3, 2, 1), nn.ConvTranspose1d(
            width, 2, 4, 2, 1), nn.Parameter(torch.randn(codes, width))

    def forward(self, x):
        e = self.encoder(x).transpose(1, 2)
        d = torch.cdist(e.detach(), self.book.detach()[None].expand(len(e), -1, -1))
        q = self.book[d.argmin(dim=-1)]
        commit = F.mse_loss(e, q.detach()) + 0.25 * F.mse_loss(q, e.detach())
        u = e / e.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        v = q / q.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        w = F.normalize(u + v, p=2, dim=-1).detach()
        u, v = u.detach(), v.detach()
        turned = e - 2 * (e * w).sum(-1, keepdim=True) * w + 2 * (e * u).sum(-1, keepdim=True) * v
        turned = turned * (q.norm(dim=-1, keepdim=True) / e.norm(dim=-1, keepdim=True).clamp(min=1e-6)).detach()
        return F.mse_loss(self.decoder(turned.transpose(1, 2)), x) + commit


class Followed(nn.Module):
    """VQ-VAE whose codes are means of what chose them, moved within forward."""

    def __init__(self, width=6, codes=8):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(5, width), nn.Linear(width, 5)
        self.register_buffer("codes", torch.randn(codes, width))
        self.register_buffer("count", torch.ones(codes))

    def forward(self, x):
        e = self.encoder(x)
        index = torch.cdist(e, self.codes).argmin(-1)
        q = F.embedding(index, self.codes)
        if self.training:
            ones = F.one_hot(index, len(self.codes)).float()
            self.count.mul_(0.99).add_(ones.sum(0), alpha=0.01)
            self.codes.mul_(0.99).add_((ones.t() @ e).detach(), alpha=0.01)
        return F.mse_loss(self.decoder(e + (q - e).detach()), x) + F.mse_loss(e, q.detach())


# ---- molecules and weather ----

class Triangles(nn.Module):
    """AlphaFold's blocks: rows of an alignment attend with biases of pairs, outer products are added to the pairs,
    triangles multiply and attend both ways; distances in bins."""

    def __init__(self, m=8, z=6, heads=2, bins=5):
        super().__init__()
        self.heads = heads
        self.aa, self.left, self.right = nn.Linear(7, m), nn.Linear(7, z), nn.Linear(7, z)
        self.relpos = nn.Linear(9, z)
        self.norms_m, self.norms_z = (nn.ModuleList(nn.LayerNorm(d) for _ in range(n)) for d, n in ((m, 3), (z, 8)))
        self.qkv, self.gate, self.o = nn.Linear(m, 3 * m, bias=False), nn.Linear(m, m), nn.Linear(m, m)
        self.bias, self.transition = nn.Linear(z, heads, bias=False), mlp(m, 4 * m, m)
        self.ab, self.outer = nn.Linear(m, 6), nn.Linear(9, z)
        self.tri = nn.ModuleList(nn.ModuleList([nn.Linear(z, 2 * z), nn.Linear(z, 2 * z), nn.Linear(z, z),
                nn.Linear(z, z)])
                                 for _ in range(2))
        self.tri_attn = nn.ModuleList(nn.ModuleList([nn.Linear(z, 3 * z, bias=False), nn.Linear(z, heads, bias=False),
                                                     nn.Linear(z, z), nn.Linear(z, z)]) for _ in range(2))
        self.distogram = nn.Linear(z, bins)

    def multiply(self, i, z, mask):
        pg, p, g, o = self.tri[i]
        x = self.norms_z[2 * i](z)
        a, b = (mask.unsqueeze(-1) * torch.sigmoid(pg(x)) * p(x)).chunk(2, -1)
        y = torch.einsum("bikc,bjkc->bijc", a, b) if i == 0 else torch.einsum("bkic,bkjc->bijc", a, b)
        return torch.sigmoid(g(x)) * o(self.norms_z[2 * i + 1](y))

    def attend(self, i, z, mask):
        z = z if i == 0 else z.transpose(-2, -3)
        mask = mask if i == 0 else mask.transpose(-1, -2)
        qkv, bias, gate, o = self.tri_attn[i]
        x = self.norms_z[4 + i](z)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for y in qkv(x).chunk(3, -1))
        a = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-1, -2))
        a = a + (1e9 * (mask - 1))[..., None, None, :] + bias(x).permute(0, 3, 1, 2).unsqueeze(1)
        y = torch.matmul(torch.softmax(a, -1), v).transpose(-2, -3).flatten(-2)
        y = o(y * torch.sigmoid(gate(x)))
        return y if i == 0 else y.transpose(-2, -3)

    def forward(self, msa, mask, bins):
        b, s, r, _ = msa.shape
        m, first = self.aa(msa), msa[:, 0]
        at = torch.arange(r)
        rel = F.one_hot((at[:, None] - at[None]).clamp(-4, 4) + 4, 9).float()
        z = self.left(first)[:, :, None] + self.right(first)[:, None] + self.relpos(rel)
        pair = mask[:, :, None] * mask[:, None]
        x = self.norms_m[0](m)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(2, 3) for y in self.qkv(x).chunk(3, -1))
        a = q @ k.mT * q.shape[-1] ** -0.5 + self.bias(self.norms_z[6](z)).permute(0, 3, 1, 2).unsqueeze(1)
        a = a + (1e9 * (mask - 1))[:, None, None, None]
        y = (a.softmax(-1) @ v).transpose(2, 3).flatten(-2)
        m = m + self.o(y * torch.sigmoid(self.gate(x)))
        m = m + self.transition(self.norms_m[1](m))
        a, c = (self.ab(self.norms_m[2](m)) * mask[:, None, :, None]).chunk(2, -1)
        outer = torch.einsum("bsic,bsjd->bijcd", a, c).flatten(-2)
        z = z + self.outer(outer) / (1e-3 + torch.full((1, 1, 1, 1), float(s)))
        for i in range(2):
            z = z + self.multiply(i, z, pair)
        for i in range(2):
            z = z + self.attend(i, z, pair)
        logits = self.distogram(self.norms_z[7](z))
        logits = logits + logits.transpose(-2, -3)
        errors = -(F.log_softmax(logits, -1) * F.one_hot(bins, logits.shape[-1])).sum(-1)
        per = (errors * pair).sum((-1, -2)) / (1e-6 + pair.sum((-1, -2)))
        return per.mean()


class Weather(nn.Module):
    """GraphCast: a grid's points to a mesh, messages over the mesh, back to the grid; a residual, scaled by how much
    each variable changes; areas weigh."""

    def __init__(self, width=8, rows=4, columns=6, mesh=5, variables=3):
        super().__init__()
        points = rows * columns
        draw = torch.Generator().manual_seed(5)
        self.register_buffer("senders", torch.randint(mesh, (12,), generator=draw))
        self.register_buffer("receivers", torch.randint(mesh, (12,), generator=draw))
        self.register_buffer("g2m", torch.stack([torch.arange(points), torch.arange(points) % mesh]))
        self.register_buffer("edges", torch.randn(12, 4, generator=draw))
        self.register_buffer("area", torch.cos(torch.linspace(-1.2, 1.2, rows)).repeat_interleave(columns))
        self.register_buffer("scale", torch.rand(variables, generator=draw) + 0.5)
        self.grid, self.mesh_in = mlp(2 * variables, width, width, act=nn.SiLU), nn.Parameter(torch.randn(mesh, width))
        self.edge_in, self.into = mlp(4, width, width, act=nn.SiLU), mlp(2 * width, width, width, act=nn.SiLU)
        self.edge, self.node = (nn.ModuleList(nn.Sequential(mlp(n * width, width, width, act=nn.SiLU),
                nn.LayerNorm(width))
                                              for _ in range(2)) for n in (3, 2))
        self.back, self.out = mlp(2 * width, width, width, act=nn.SiLU), nn.Linear(width, variables)

    def forward(self, before, now, after):
        g = self.grid(torch.cat([before, now], -1))
        m = self.mesh_in.expand(g.shape[0], -1, -1)
        src, dst = self.g2m
        messages = self.into(torch.cat([g[:, src], m[:, dst]], dim=-1))
        m = m + torch.zeros_like(m).scatter_add_(1, dst[None, :, None].expand_as(messages), messages)
        e = self.edge_in(self.edges).expand(g.shape[0], -1, -1)
        for edge, node in zip(self.edge, self.node):
            e = e + edge(torch.cat([e, m[:, self.senders], m[:, self.receivers]], -1))
            total = m.new_zeros(m.shape).index_add_(1, self.receivers, e)
            m = m + node(torch.cat([m, total], -1))
        y = g + self.back(torch.cat([g, m[:, dst]], -1))
        y = now + self.out(y) * self.scale
        error = ((y - after) / self.scale) ** 2
        return (error * (self.area / self.area.mean())[None, :, None]).mean()


# ---- series and recommenders ----

class Quantiles(nn.Module):
    """Chronos-Bolt: patches of a series that is scaled by what is observed of it, the mask beside them, residual
    blocks, an encoder and one decoder token; nine quantiles."""

    def __init__(self, length=16, patch=4, width=16, ahead=4):
        super().__init__()
        self.patch, self.ahead = patch, ahead
        self.hidden, self.output, self.residual = nn.Linear(2 * patch, width), nn.Linear(width, width), nn.Linear(
            2 * patch, width)
        self.encoder, self.decoder = nn.TransformerEncoderLayer(width, 2, 24, 0.0, batch_first=True), \
            nn.TransformerDecoderLayer(width, 2, 24, 0.0, batch_first=True)
        self.reg, self.start, self.head = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(
            torch.randn(1, 1, width)), nn.Linear(width, 9 * ahead)
        self.register_buffer("quantiles", torch.arange(1, 10) / 10, persistent=False)

    def forward(self, context, mask, target):
        mask = mask.to(context.dtype)
        count = mask.sum(-1, keepdim=True).clamp(min=1)
        loc = (context * mask).sum(-1, keepdim=True) / count
        scale = (((context - loc) * mask).square().sum(-1, keepdim=True) / count).sqrt() + 1e-5
        x = torch.arcsinh((context - loc) / scale)
        patches = x.unfold(dimension=-1, size=self.patch, step=self.patch)
        seen = mask.unfold(dimension=-1, size=self.patch, step=self.patch)
        patches = torch.where(seen > 0.0, patches, 0.0)
        x = torch.cat([patches, seen], dim=-1)
        x = self.output(F.relu(self.hidden(x))) + self.residual(x)
        attended = seen.sum(dim=-1) > 0
        x = torch.cat([x, self.reg.expand(len(x), -1, -1)], dim=-2)
        attended = torch.cat([attended, torch.ones_like(attended[:, :1])], dim=-1)
        memory = self.encoder(x, src_key_padding_mask=~attended)
        y = self.decoder(self.start.expand(len(x), -1, -1), memory, memory_key_padding_mask=~attended)
        preds = self.head(y[:, 0]).view(-1, 9, self.ahead)
        target = torch.arcsinh((target - loc) / scale).unsqueeze(1)
        q = self.quantiles.view(1, 9, 1)
        loss = 2 * torch.abs((target - preds) * ((target <= preds).float() - q))
        return loss.mean(dim=-2).sum(dim=-1).mean()


class Sequential(nn.Module):
    """HSTU: gates in the place of softmax, biases by how far in places and in time, which are put into bins; negatives
    that all share (sampled softmax)."""

    def __init__(self, things=30, width=12, heads=2, buckets=8, length=8):
        super().__init__()
        self.heads, self.buckets, self.things = heads, buckets, nn.Embedding(things, width, padding_idx=0)
        self.uvqk, self.o = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, width)
        self.ts_w = nn.Parameter(torch.randn(buckets + 1) * 0.1)
        self.pos_w = nn.Parameter(torch.randn(2 * length - 1) * 0.1)
        self.norm, self.out = nn.LayerNorm(width), nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, seq, times, positives, negatives):
        x = self.things(seq) * self.things.weight.shape[1] ** 0.5
        n, t, c = x.shape
        u, v, q, k = F.silu(self.uvqk(self.norm(x))).split(c, dim=-1)
        q, k, v = (y.view(n, t, self.heads, -1) for y in (q, k, v))
        nth = F.pad(self.pos_w[:2 * t - 1], [0, t]).repeat(t)
        nth = nth[..., :-t].reshape(1, t, 3 * t - 2)
        rel = nth[:, :, (2 * t - 1) // 2:-((2 * t - 1) // 2)]
        apart = torch.abs(times[:, :, None] - times[:, None])
        bucket = torch.clamp((torch.log(apart.clamp(min=1.0)) / 0.301).long(), min=0, max=self.buckets).detach()
        rel = rel + torch.index_select(self.ts_w, dim=0, index=bucket.view(-1)).view(n, t, t)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) + rel.unsqueeze(1)
        scores = F.silu(scores) / t * torch.tril(torch.ones(t, t))
        y = torch.einsum("bhnm,bmhd->bnhd", scores, v).reshape(n, t, c)
        x = x + self.o(u * self.out(y))
        x = F.normalize(x, dim=-1)
        pos, neg = F.normalize(self.things(positives), dim=-1), F.normalize(self.things(negatives), dim=-1)
        logits = torch.cat([(x * pos).sum(-1, keepdim=True), torch.einsum("ntd,nkd->ntk", x, neg)], -1) / 0.05
        weight = (positives != 0).float()
        loss = -F.log_softmax(logits, dim=-1)[..., 0]
        return (loss * weight).sum() / weight.sum()


# ---- agents ----

class Decisions(nn.Module):
    """A decision transformer: returns, states and actions in turns, and steps that are the same for three tokens."""

    def __init__(self, width=12, actions=3, steps=20):
        super().__init__()
        self.rtg, self.state, self.action, self.at = nn.Sequential(nn.Linear(1, width), nn.Tanh()), nn.Linear(
            5, width), nn.Embedding(actions, width), nn.Embedding(steps, width)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(
            width, 2, 24, 0.0, F.gelu, batch_first=True, norm_first=True), 1, enable_nested_tensor=False)
        self.head, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, states, actions, returns, steps, mask):
        n, t = states.shape[:2]
        time = self.at(steps)
        x = torch.stack((self.rtg(returns.unsqueeze(-1)) + time, self.state(states) + time,
                self.action(actions) + time),
                        dim=1).permute(0, 2, 1, 3).reshape(n, 3 * t, -1)
        hidden = torch.stack((mask, mask, mask), dim=1).permute(0, 2, 1).reshape(n, 3 * t)
        causal = nn.Transformer.generate_square_subsequent_mask(3 * t)
        x = self.body(x, mask=causal, src_key_padding_mask=(1 - hidden) * -1e9)
        x = x.reshape(n, t, 3, -1).permute(0, 2, 1, 3)
        ce = F.cross_entropy(self.head(x[:, 1]).reshape(-1, 3), actions.reshape(-1), reduction="none")
        ce = (ce * mask.reshape(-1)).sum() / mask.sum()
        return ce + 0.1 * F.mse_loss(self.value(x[:, 2]).squeeze(-1), returns)


class Proximal(nn.Module):
    """PPO with a recurrence that ends of episodes reset, advantages normed over the minibatch, values that are
    clipped, and actions that are not allowed."""

    def __init__(self, width=8, actions=4):
        super().__init__()
        self.encoder, self.lstm = nn.Sequential(nn.Linear(6, width), nn.Tanh()), nn.LSTM(width, width)
        self.actor, self.critic = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, obs, done, allowed, action, old, adv, ret, values):
        n, t = obs.shape[:2]
        x = self.encoder(obs).transpose(0, 1)
        state, out = (torch.zeros(1, n, x.shape[-1]), torch.zeros(1, n, x.shape[-1])), []
        for h, d in zip(x, done.transpose(0, 1)):
            h, state = self.lstm(h.unsqueeze(0), tuple((1.0 - d).view(1, -1, 1) * s for s in state))
            out += [h]
        x = torch.cat(out).transpose(0, 1)
        logits = torch.where(allowed, self.actor(x), torch.tensor(-1e8))
        probs = torch.distributions.Categorical(logits=logits)
        ratio = (probs.log_prob(action) - old).exp()
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
        v = self.critic(x).squeeze(-1)
        clipped = values + torch.clamp(v - values, -0.2, 0.2)
        v_loss = 0.5 * torch.max((v - ret) ** 2, (clipped - ret) ** 2).mean()
        return pg - 0.01 * probs.entropy().mean() + v_loss * 0.5


class Actions(nn.Module):
    """Diffusion policy: a U-Net along time, whose channels the observations scale and shift."""

    def __init__(self, width=8, actions=2, cond=10):
        super().__init__()
        self.time, self.encode = mlp(8, 16, 8, act=nn.Mish), mlp(6, 12, 5)
        self.convs = nn.ModuleList(nn.Sequential(nn.Conv1d(a, b, 5, padding=2), nn.GroupNorm(4, b), nn.Mish())
                                   for a, b in ((actions, width), (width, width), (width, 2 * width), (4 * width,
                                           width)))
        self.film = nn.ModuleList(nn.Sequential(nn.Mish(), nn.Linear(8 + cond, 2 * b), nn.Unflatten(-1, (-1, 1)))
                                  for b in (width, width, 2 * width, width))
        self.down, self.up = nn.Conv1d(width, 2 * width, 3, 2, 1), nn.ConvTranspose1d(2 * width, 2 * width, 4, 2, 1)
        self.final, self.mid = nn.Conv1d(width, actions, 1), nn.Conv1d(width, 2 * width, 1)
        betas = torch.tensor([min(1 - (math.cos((i + 1) / 20 * math.pi / 2) / math.cos(i / 20 * math.pi / 2)) ** 2,
                0.999)
                              for i in range(20)])
        self.register_buffer("bars", torch.cumprod(1.0 - betas, dim=0))

    def block(self, i, x, cond):
        x = self.convs[i](x)
        embed = self.film[i](cond)
        embed = embed.reshape(embed.shape[0], 2, x.shape[1], 1)
        return embed[:, 0, ...] * x + embed[:, 1, ...]

    def forward(self, obs, actions, noise, steps):
        x = self.bars[steps].sqrt()[:, None, None] * actions + (1 - self.bars[steps]).sqrt()[:, None, None] * noise
        freqs = torch.exp(torch.arange(4) * -math.log(10000) / 3)
        emb = steps[:, None].float() * freqs[None, :]
        cond = torch.cat([self.time(torch.cat((emb.sin(), emb.cos()), dim=-1)), self.encode(obs).flatten(1)], -1)
        x = x.movedim(-1, -2)
        x = self.block(1, self.block(0, x, cond), cond)
        y, z = self.up(self.down(x)), self.block(2, x, cond) + self.mid(x)
        x = self.final(self.block(3, torch.cat((y, z), dim=1), cond)).movedim(-1, -2)
        return F.mse_loss(x, noise)


# ---- learning from other networks ----

class Policy(nn.Module):
    """A small language model; what it says of each next token."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.body = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0, batch_first=True, norm_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.body(self.embed(x), src_mask=mask, is_causal=True))


class Relative(nn.Module):
    """GRPO: a group of answers a question, rewards less their mean by their deviation, ratios that are clipped, the
    distance from a reference that stays, a mean over the tokens of each answer."""

    def __init__(self):
        super().__init__()
        self.policy = Policy()
        self.reference = copy.deepcopy(self.policy).requires_grad_(False)

    @staticmethod
    def told(model, x):
        logits = model(x)[:, :-1] / 0.9
        return torch.gather(logits.log_softmax(-1), dim=-1, index=x[:, 1:].unsqueeze(-1)).squeeze(-1)

    def forward(self, answers, mask, rewards, old):
        n, g, t = answers.shape
        x, mask, old = answers.view(n * g, t), mask.view(n * g, t)[:, 1:], old.view(n * g, t - 1)
        logp = self.told(self.policy, x)
        with torch.no_grad():
            ref = self.told(self.reference, x)
        mean, std = rewards.mean(dim=1), rewards.std(dim=1)
        adv = (rewards.view(-1) - mean.repeat_interleave(g, dim=0)) / (std.repeat_interleave(g, dim=0) + 1e-4)
        ratio = torch.exp(logp - old)
        one, two = ratio * adv.unsqueeze(1), torch.clamp(ratio, 0.8, 1.28) * adv.unsqueeze(1)
        kl = torch.exp(ref - logp) - (ref - logp) - 1
        loss = -torch.min(one, two) + 0.04 * kl
        return ((loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()


class Direct(nn.Module):
    """DPO with a frozen reference: both answers in one pass, as samples behind each other within a pair."""

    def __init__(self):
        super().__init__()
        self.policy = Policy()
        self.reference = copy.deepcopy(self.policy).eval().requires_grad_(False)

    @staticmethod
    def told(model, x, labels):
        logits, labels = model(x)[:, :-1], labels[:, 1:].clone()
        mask = labels != -100
        labels[labels == -100] = 0
        logp = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
        return (logp * mask).sum(-1)

    def forward(self, pairs, labels):
        x, labels = pairs.flatten(0, 1), labels.flatten(0, 1)
        own = self.told(self.policy, x, labels).view(-1, 2)
        with torch.no_grad():
            ref = self.told(self.reference, x, labels).view(-1, 2)
        logits = (own[:, 0] - own[:, 1]) - (ref[:, 0] - ref[:, 1])
        return (-F.logsigmoid(0.1 * logits) * 0.9 - F.logsigmoid(-0.1 * logits) * 0.1).mean()


class Rewarded(nn.Module):
    """A reward model: a number at each answer's last token, and that the chosen one's is larger (Bradley, Terry)."""

    def __init__(self, width=12):
        super().__init__()
        self.body, self.score = Policy(width), nn.Linear(WORDS, 1, bias=False)

    def reward(self, x):
        values = self.score(self.body(x)).squeeze(-1)
        last = torch.ne(x, 0).sum(-1) - 1
        return values[torch.arange(x.shape[0]), last.clamp(min=0)]

    def forward(self, chosen, rejected, margin):
        a, b = self.reward(chosen), self.reward(rejected)
        return -F.logsigmoid(a - b - margin).mean() + 0.01 * (a + b).square().mean()


class Averaged(nn.Module):
    """data2vec 2.0: what a following network's last layers say on average, normed, is told at hidden places."""

    def __init__(self, width=12, layers=3):
        super().__init__()
        self.into, self.token = nn.Linear(6, width), nn.Parameter(torch.randn(width) * 0.1)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 24, 0.0, F.gelu, batch_first=True)
                                    for _ in range(layers))
        self.conv = nn.Sequential(nn.Conv1d(width, width, 3, padding=1, groups=2), nn.GELU())
        self.proj = nn.Linear(width, width)
        self.ema = copy.deepcopy(self.blocks).requires_grad_(False).eval()

    def forward(self, x, mask):
        x = self.into(x)
        with torch.no_grad():
            y, found = x.detach(), []
            for block in self.ema:
                y = block(y)
                found.append(F.instance_norm(y.transpose(1, 2)).transpose(1, 2))
            y = F.layer_norm(sum(found[1:]) / 2, x.shape[-1:])
        h = torch.where(mask.unsqueeze(-1), self.token.type_as(x), x)
        for block in self.blocks:
            h = block(h)
        h = self.proj(self.conv(h.transpose(1, 2)).transpose(1, 2))
        return F.mse_loss(h[mask].float(), y[mask].float(), reduction="none").sum(-1).mean() / math.sqrt(h.size(-1))


class Taught(nn.Module):
    """A language model learns from a larger one: a mixture of both in the middle (generalised JSD), only among the
    teacher's likeliest words, at some temperature, and the labels."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = Policy(8), Policy(12).requires_grad_(False)

    def forward(self, x, labels):
        logits = self.student(x)
        with torch.no_grad():
            told = self.teacher(x)
        top, at = torch.topk(told / 2.0, 5, dim=-1)
        mine = torch.gather(logits / 2.0, -1, at)
        p, q = F.log_softmax(top, -1), F.log_softmax(mine, -1)
        middle = torch.logsumexp(torch.stack([p + math.log(0.3), q + math.log(0.7)]), dim=0)
        jsd = 0.3 * F.kl_div(middle, p, reduction="none", log_target=True) + 0.7 * F.kl_div(
            middle, q, reduction="none", log_target=True)
        mask = labels != -100
        jsd = jsd.sum(-1)[mask].sum() / mask.sum()
        return jsd * 4.0 + F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


class LowRank(nn.Module):
    def __init__(self, out, into, rank=2):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(rank, into) * 0.3), nn.Parameter(torch.randn(out, rank) * 0.3)

    def forward(self, weight):
        return weight + (self.b @ self.a) * 4.0 / math.sqrt(2)


class Adapted(nn.Module):
    """LoRA by PyTorch's parametrisations, of a network that stays: products and a convolution."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc1, self.fc2 = nn.Conv1d(3, 8, 3, padding=1), nn.Linear(8, 16), nn.Linear(16, 5)
        self.requires_grad_(False)
        for layer, out, into in ((self.fc1, 16, 8), (self.fc2, 5, 16)):
            parametrize.register_parametrization(layer, "weight", LowRank(out, into))

    def forward(self, x, labels):
        x = F.gelu(self.conv(x)).mean(-1)
        return F.cross_entropy(self.fc2(F.gelu(self.fc1(x))), labels)


class Penalised(nn.Module):
    """A discriminator with R1's penalty."""

    def __init__(self):
        super().__init__()
        self.net = mlp(6, 12, 1, act=nn.Softplus)

    def forward(self, real, fake):
        real = real.detach().requires_grad_(True)
        told = self.net(real)
        grad, = torch.autograd.grad(told.sum(), real, create_graph=True)
        return F.softplus(-told).mean() + F.softplus(self.net(fake)).mean() + 5.0 * grad.pow(2).sum(1).mean()


MODELS = {
    "autoencoder, KL, LPIPS": lambda: (Blurred(), (reals(3, 8, 8), reals(2, 4, 4)), {}),
    "VQ-VAE, rotated": lambda: (Turned(), (reals(2, 8),), {}),
    "AlphaFold": lambda: (Triangles(), (reals(3, 5, 7), torch.ones(BATCH, 5), ids(5, 5, below=5)), {}),
    "GraphCast": lambda: (Weather(), (reals(24, 3), reals(24, 3), reals(24, 3)), {}),
    "Chronos-Bolt": lambda: (Quantiles(), (reals(16), torch.rand(BATCH, 16) < 0.8, reals(4)), {}),
    "HSTU": lambda: (Sequential(), (ids(8, below=30), torch.rand(BATCH, 8) * 99, ids(8, below=30), ids(
        5, below=30)), {}),
    "decision transformer": lambda: (Decisions(), (reals(4, 5), ids(4, below=3), reals(4), ids(4, below=20), torch.ones(
        BATCH, 4)), {}),
    "PPO, recurrent": lambda: (Proximal(), (reals(4, 6), torch.rand(BATCH, 4).round(), torch.rand(
        BATCH, 4, 4) < 0.8, ids(4, below=4), -torch.rand(BATCH, 4) - 1, reals(4), reals(4), reals(4)), {}),
    "diffusion policy": lambda: (Actions(), (reals(2, 6), reals(8, 2), reals(8, 2), ids(below=20)), {}),
    "GRPO": lambda: (Relative(), (ids(3, 6, below=WORDS), torch.ones(BATCH, 3, 6), reals(3), -torch.rand(
        BATCH, 3, 5) - 3), {}),
    "DPO, pairs": lambda: (Direct(), (ids(2, 6, below=WORDS), ids(2, 6, below=WORDS)), {}),
    "reward model": lambda: (Rewarded(), (ids(6, below=WORDS), ids(6, below=WORDS), reals().abs()), {}),
    "data2vec 2.0": lambda: (Averaged(), (reals(6, 6), torch.rand(BATCH, 6) < 0.5), {}),
    "distillation, JSD": lambda: (Taught(), (ids(6, below=WORDS), ids(6, below=WORDS)), {}),
    "LoRA, parametrised": lambda: (Adapted(), (reals(3, 6), ids(below=5)), {})}
REFUSED = {
    "VQ-VAE, moved codes": lambda: (Followed(), (reals(5),), {}),
    "R1": lambda: (Penalised(), (reals(6), reals(6)), {})}
