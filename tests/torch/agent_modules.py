# Models that the other lists lack, as people write them: agents, tables, series, recommenders, graphs, physics.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


def mlp(*sizes, act=nn.ReLU):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


# ---- agents ----

class Corrected(nn.Module):
    """IMPALA: V-trace by a loop backwards, ratios clipped, without gradients."""

    def __init__(self, width=8, actions=4):
        super().__init__()
        self.core, self.policy, self.value = nn.LSTM(5, width, batch_first=True), nn.Linear(width, actions), nn.Linear(
            width, 1)

    def forward(self, obs, actions, rewards, done, behaviour):
        h = self.core(obs)[0]
        logits, values = self.policy(h), self.value(h).squeeze(-1)
        logp = torch.gather(F.log_softmax(logits, -1), -1, actions.unsqueeze(-1)).squeeze(-1)
        discounts = (1 - done) * 0.99
        with torch.no_grad():
            rhos = torch.exp(logp[:, :-1] - behaviour[:, :-1])
            clipped = torch.clamp(rhos, max=1.0)
            after, v = values[:, 1:], values[:, :-1]
            deltas = clipped * (rewards[:, :-1] + discounts[:, :-1] * after - v)
            acc, result = torch.zeros_like(v[:, 0]), []
            for t in range(v.shape[1] - 1, -1, -1):
                acc = deltas[:, t] + discounts[:, t] * clipped[:, t] * acc
                result.append(acc)
            result.reverse()
            vs = torch.add(torch.stack(result, dim=1), v)
            next_vs = torch.cat([vs[:, 1:], values[:, -1:]], dim=1)
            advantages = clipped * (rewards[:, :-1] + discounts[:, :-1] * next_vs - v)
        policy = F.softmax(logits, -1)
        entropy = -torch.sum(policy * F.log_softmax(logits, -1), -1).mean()
        return -(logp[:, :-1] * advantages).mean() + 0.5 * ((vs - values[:, :-1]) ** 2).mean() - 0.01 * entropy


class Cautious(nn.Module):
    """TD3+BC: two critics and targets that follow, noise that is clipped, and a weight by the mean of the values."""

    def __init__(self, state=5, action=2, width=8):
        super().__init__()
        self.actor = nn.Sequential(mlp(state, width, action), nn.Tanh())
        self.q1, self.q2 = (mlp(state + action, width, 1) for _ in range(2))
        self.actor_target = nn.Sequential(mlp(state, width, action), nn.Tanh()).requires_grad_(False)
        self.q1_target, self.q2_target = (mlp(state + action, width, 1).requires_grad_(False) for _ in range(2))

    def forward(self, state, action, reward, after, done, noise):
        with torch.no_grad():
            noise = (noise * 0.2).clamp(-0.5, 0.5)
            sa = torch.cat([after, (self.actor_target(after) + noise).clamp(-1, 1)], 1)
            target = reward + (1 - done) * 0.99 * torch.min(self.q1_target(sa), self.q2_target(sa))
        sa = torch.cat([state, action], 1)
        critic = F.mse_loss(self.q1(sa), target) + F.mse_loss(self.q2(sa), target)
        pi = self.actor(state)
        q = self.q1(torch.cat([state, pi], 1))
        lmbda = 2.5 / q.abs().mean().detach()
        return critic - lmbda * q.mean() + F.mse_loss(pi, action)


def symlog(x):
    return torch.sign(x) * torch.log(torch.abs(x) + 1.0)


class DreamerV3(nn.Module):
    """A recurrence, classes drawn by given noise and passed straight through, mixed with the uniform; divergence with
    free bits both ways; rewards in two bins of a symlog scale."""

    def __init__(self, width=8, groups=3, classes=4, bins=7):
        super().__init__()
        self.groups, self.classes, z = groups, classes, groups * classes
        self.encoder, self.decoder = mlp(6, width, width, act=nn.SiLU), mlp(width + z, width, 6, act=nn.SiLU)
        self.cell, self.norm = nn.Linear(z + 2 + width, 3 * width), nn.RMSNorm(3 * width)
        self.prior, self.posterior = nn.Linear(width, z), nn.Linear(2 * width, z)
        self.reward, self.cont = mlp(width + z, width, bins, act=nn.SiLU), nn.Linear(width + z, 1)
        self.register_buffer("bins", torch.linspace(-3, 3, bins))
        nn.init.zeros_(self.reward[-1].weight)

    def mixed(self, logits):
        probs = logits.unflatten(-1, (self.groups, self.classes)).softmax(-1)
        return torch.log(0.99 * probs + 0.01 / self.classes)

    def twohot(self, x):
        x = symlog(x)[..., None]
        below = (self.bins <= x).to(torch.int32).sum(-1) - 1
        below = below.clamp(0, len(self.bins) - 1)
        above = (below + 1).clamp(0, len(self.bins) - 1)
        equal = below == above
        lo, hi = ((self.bins[i] - x[..., 0]).abs() for i in (below, above))
        lo, hi = torch.where(equal, 1, lo), torch.where(equal, 1, hi)
        a, b = hi / (lo + hi), lo / (lo + hi)
        return F.one_hot(below, len(self.bins)) * a[..., None] + F.one_hot(above, len(self.bins)) * b[..., None]

    def forward(self, obs, actions, rewards, cont, gumbel):
        n, t = obs.shape[:2]
        embed = self.encoder(symlog(obs))
        h, z = obs.new_zeros(n, embed.shape[-1]), obs.new_zeros(n, self.groups * self.classes)
        feats, loss = [], 0.0
        for i in range(t):
            x = self.norm(self.cell(torch.cat([z, actions[:, i], h], -1)))
            reset, cand, update = x.chunk(3, -1)
            update = torch.sigmoid(update - 1)
            h = update * torch.tanh(torch.sigmoid(reset) * cand) + (1 - update) * h
            prior, post = self.mixed(self.prior(h)), self.mixed(self.posterior(torch.cat([h, embed[:, i]], -1)))
            index = (post + gumbel[:, i]).argmax(-1)
            probs = post.exp()
            z = (F.one_hot(index, self.classes) + probs - probs.detach()).flatten(1)
            dyn = (post.detach().exp() * (post.detach() - prior)).sum((-1, -2))
            rep = (post.exp() * (post - prior.detach())).sum((-1, -2))
            loss = loss + torch.clamp(dyn, min=1.0).mean() + 0.1 * torch.clamp(rep, min=1.0).mean()
            feats.append(torch.cat([h, z], -1))
        feat = torch.stack(feats, 1)
        loss = loss + (self.decoder(feat) - symlog(obs)).pow(2).sum(-1).mean()
        loss = loss - (self.twohot(rewards).detach() * self.reward(feat).log_softmax(-1)).sum(-1).mean()
        return loss + F.binary_cross_entropy_with_logits(self.cont(feat).squeeze(-1), cont)


class Monotone(nn.Module):
    """QMIX: values of agents are mixed by weights that a network makes of the state, none below zero."""

    def __init__(self, agents=3, width=6, state=5, actions=4):
        super().__init__()
        self.agents, self.width = agents, width
        self.gru, self.q = nn.GRUCell(4, width), nn.Linear(width, actions)
        self.w1, self.b1 = nn.Linear(state, agents * width), nn.Linear(state, width)
        self.w2, self.v = mlp(state, 8, width), mlp(state, 8, 1)

    def forward(self, obs, actions, state, target):
        n, t, a, f = obs.shape
        h, qs = obs.new_zeros(n * a, self.width), []
        for i in range(t):
            h = self.gru(obs[:, i].reshape(-1, f), h)
            qs.append(self.q(h).view(n, a, -1))
        q = torch.gather(torch.stack(qs, dim=1), dim=3, index=actions.unsqueeze(3)).squeeze(3)
        s, q = state.reshape(-1, state.size(-1)), q.view(-1, 1, self.agents)
        w1 = torch.abs(self.w1(s)).view(-1, self.agents, self.width)
        hidden = F.elu(torch.bmm(q, w1) + self.b1(s).view(-1, 1, self.width))
        y = torch.bmm(hidden, torch.abs(self.w2(s)).view(-1, self.width, 1)) + self.v(s).view(-1, 1, 1)
        return ((y.view(n, -1) - target) ** 2).mean()


# ---- tables ----

class Tokens(nn.Module):
    """FT-Transformer: numbers and classes become tokens; gated units; the first token tells. Numbers also by pieces."""

    def __init__(self, numbers=3, sizes=(4, 5), width=8, heads=2, bins=4):
        super().__init__()
        self.heads = heads
        self.weight, self.bias = (nn.Parameter(torch.randn(numbers + (i == 0), width) * 0.1) for i in range(2))
        self.category_bias, self.table = nn.Parameter(torch.zeros(len(sizes), width)), nn.Embedding(sum(sizes), width)
        self.register_buffer("offsets", torch.tensor([0, *sizes[:-1]]).cumsum(0))
        self.register_buffer("edges", torch.linspace(-2, 2, bins + 1).repeat(numbers, 1))
        self.pieces = nn.Parameter(torch.randn(numbers, bins, width) * 0.1)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.up, self.down, self.head = nn.Linear(width, 4 * width), nn.Linear(2 * width, width), nn.Linear(width, 1)

    def forward(self, numbers, classes, y):
        x = torch.cat([torch.ones(len(numbers), 1), numbers], dim=1)
        x = self.weight[None] * x[:, :, None]
        x = torch.cat([x, self.table(classes + self.offsets[None]) + self.category_bias], dim=1)
        x[:, 1:numbers.shape[1] + 1] += self.bias
        z = (numbers[..., None] - self.edges[:, :-1]) / (self.edges[:, 1:] - self.edges[:, :-1])
        first, last = z[..., :1].clamp_max(1.0), z[..., -1:].clamp_min(0.0)
        z = torch.cat([first, z[..., 1:-1].clamp(0.0, 1.0), last], dim=-1)
        piece = torch.einsum("nfb,fbd->nfd", z, self.pieces)
        x = torch.cat([x[:, :1], x[:, 1:4] + F.relu(piece), x[:, 4:]], 1)
        n, t, c = x.shape
        q, k, v = (f(x).reshape(n, t, self.heads, c // self.heads).transpose(1, 2).reshape(n * self.heads, t, -1)
                   for f in (self.q, self.k, self.v))
        attn = F.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(c // self.heads), dim=-1)
        x = x + self.o(torch.bmm(attn, v).reshape(n, self.heads, t, -1).transpose(1, 2).reshape(n, t, c))
        a, b = self.up(self.norms[0](x)).chunk(2, dim=-1)
        x = x + self.down(a * F.relu(b))
        return F.mse_loss(self.head(F.relu(self.norms[1](x[:, 0]))).squeeze(-1), y)


class Samples(nn.Module):
    """SAINT: attention over the features, then over the batch's samples."""

    def __init__(self, features=4, width=6, heads=2):
        super().__init__()
        self.heads, self.embed = heads, nn.ModuleList(mlp(1, 8, width) for _ in range(features))
        self.cls, c = nn.Parameter(torch.randn(1, 1, width)), width * (features + 1)
        self.qkv = nn.ModuleList([nn.Linear(width, 3 * width, bias=False), nn.Linear(c, 3 * heads * 4, bias=False)])
        self.out = nn.ModuleList([nn.Linear(width, width), nn.Linear(heads * 4, c)])
        self.norms, self.head = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(c)]), nn.Linear(width, 3)

    def attend(self, i, x):
        n, t, _ = x.shape
        q, k, v = (y.reshape(n, t, self.heads, -1).permute(0, 2, 1, 3) for y in self.qkv[i](x).chunk(3, dim=-1))
        attn = (torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5).softmax(dim=-1)
        return self.out[i](torch.einsum("bhij,bhjd->bhid", attn, v).permute(0, 2, 1, 3).reshape(n, t, -1))

    def forward(self, x, labels):
        x = torch.stack([f(x[:, i:i + 1]) for i, f in enumerate(self.embed)], dim=1)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        x = x + self.attend(0, self.norms[0](x))
        n, t, c = x.shape
        y = x.reshape(1, n, t * c)
        x = (y + self.attend(1, self.norms[1](y))).reshape(n, t, c)
        return F.cross_entropy(self.head(x[:, 0]), labels)


class Heads(nn.Module):
    """TabM: scales of the inputs and outputs of one network make several; every one is trained for itself."""

    def __init__(self, features=5, width=8, k=4):
        super().__init__()
        self.k = k
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(features, width) * 0.3), nn.Parameter(
            torch.randn(width, width) * 0.3)])
        self.r = nn.ParameterList(nn.Parameter(torch.randn(k, s).sign()) for s in (features, width))
        self.s = nn.ParameterList(nn.Parameter(torch.ones(k, width)) for _ in range(2))
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(k, width)) for _ in range(2))
        self.head, self.bias = nn.Parameter(torch.randn(k, width, 3) * 0.3), nn.Parameter(torch.zeros(k, 3))

    def forward(self, x, labels):
        x = x[:, None].expand(-1, self.k, -1)
        for w, r, s, b in zip(self.weights, self.r, self.s, self.b):
            x = F.relu((x * r) @ w * s + b)
        y = torch.einsum("nki,kio->nko", x, self.head) + self.bias
        return F.cross_entropy(y.flatten(0, 1), labels.repeat_interleave(self.k))


# ---- series ----

class Exogenous(nn.Module):
    """TimeXer: patches of the series with a token for it all, which also attends to the other series, each a token."""

    def __init__(self, length=12, patch=4, width=8, ahead=3, others=2):
        super().__init__()
        self.patch, self.count = patch, length // patch
        self.value, self.all = nn.Linear(patch, width, bias=False), nn.Parameter(torch.randn(1, 1, 1, width))
        self.inverted = nn.Linear(length, width)
        self.own, self.cross = (nn.MultiheadAttention(width, 2, batch_first=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.conv1, self.conv2 = nn.Conv1d(width, 16, 1), nn.Conv1d(16, width, 1)
        self.flat, self.head = nn.Flatten(start_dim=-2), nn.Linear(width * (self.count + 1), ahead)
        place = torch.zeros(self.count, width)
        at, div = torch.arange(self.count).float()[:, None], (torch.arange(0, width, 2).float() * -(
            math.log(10000.0) / width)).exp()
        place[:, 0::2], place[:, 1::2] = torch.sin(at * div), torch.cos(at * div)
        self.register_buffer("place", place)

    def forward(self, x, others, y):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(torch.var(x - mean, dim=1, keepdim=True, unbiased=False) + 1e-5)
        x = ((x - mean) / std).permute(0, 2, 1)
        n, c, _ = x.shape
        h = x.unfold(dimension=-1, size=self.patch, step=self.patch)
        h = self.value(h.reshape(n * c, self.count, self.patch)) + self.place
        h = torch.cat([h.reshape(n, c, self.count, -1), self.all.repeat(n, c, 1, 1)], dim=2).reshape(
            n * c, self.count + 1, -1)
        cross = self.inverted(others.permute(0, 2, 1))
        h = self.norms[0](h + self.own(h, h, h, need_weights=False)[0])
        token = h[:, -1:, :].reshape(n, -1, h.shape[-1])
        token = token + self.cross(token, cross, cross, need_weights=False)[0]
        token = self.norms[1](token.reshape(n * c, 1, -1))
        z = h = torch.cat([h[:, :-1, :], token], dim=1)
        z = self.conv2(F.gelu(self.conv1(z.transpose(-1, 1)))).transpose(-1, 1)
        h = self.norms[2](h + z).reshape(n, c, self.count + 1, -1)
        out = self.head(self.flat(h)).permute(0, 2, 1)
        return F.mse_loss(out * std[:, 0, :].unsqueeze(1) + mean[:, 0, :].unsqueeze(1), y)


class Modes(nn.Module):
    """FEDformer: some frequencies, each with its own complex weights; seasons and trends by means of several widths."""

    def __init__(self, length=16, width=8, heads=2, modes=(0, 2, 5)):
        super().__init__()
        self.index, self.heads, self.length = list(modes), heads, length
        size = width // heads
        self.w1, self.w2 = (nn.Parameter(torch.rand(heads, size, size, len(modes)) / width) for _ in range(2))
        self.into, self.out = nn.Conv1d(2, width, 3, padding=1, padding_mode="circular", bias=False), nn.Linear(
            width, 2)
        self.choose, self.kernels = nn.Linear(1, 2), (3, 5)

    def parted(self, x):
        means = []
        for k in self.kernels:
            front, end = x[:, 0:1].repeat(1, k - 1 - (k - 1) // 2, 1), x[:, -1:].repeat(1, (k - 1) // 2, 1)
            means.append(F.avg_pool1d(torch.cat([front, x, end], dim=1).permute(0, 2, 1), k, 1).permute(0, 2, 1)
                         .unsqueeze(-1))
        mean = torch.sum(torch.cat(means, dim=-1) * F.softmax(self.choose(x.unsqueeze(-1)), -1), dim=-1)
        return x - mean, mean

    def forward(self, x, y):
        h = self.into(x.permute(0, 2, 1))
        n, c, t = h.shape
        ft = torch.fft.rfft(h.view(n, self.heads, -1, t), dim=-1)
        out = torch.zeros(n, self.heads, c // self.heads, t // 2 + 1, dtype=torch.cfloat)
        weights = torch.complex(self.w1, self.w2)
        for to, at in enumerate(self.index):
            out[:, :, :, to] = torch.einsum("bhi,hio->bho", ft[:, :, :, at], weights[:, :, :, to])
        h = h + torch.fft.irfft(out, n=t).reshape(n, c, t)
        season, trend = self.parted(h.transpose(1, 2))
        return F.l1_loss(self.out(season) + self.out(trend), y)


# ---- recommenders ----

class Residuals(nn.Module):
    """TIGER's RQ-VAE: what one codebook leaves is told by the next, commitments both ways, straight through."""

    def __init__(self, width=8, codes=6, levels=3):
        super().__init__()
        self.encoder, self.decoder = mlp(10, 16, width), mlp(width, 16, 10)
        self.books = nn.ModuleList(nn.Embedding(codes, width) for _ in range(levels))

    def forward(self, x):
        z = self.encoder(x)
        rest, total, loss = z, torch.zeros_like(z), 0.0
        for book in self.books:
            d = torch.sum(rest ** 2, dim=1, keepdim=True) + torch.sum(book.weight ** 2, dim=1).unsqueeze(
                0) - 2 * torch.matmul(rest, book.weight.t())
            q = book(torch.argmin(d, dim=-1))
            loss = loss + F.mse_loss(q, rest.detach()) + 0.25 * F.mse_loss(q.detach(), rest)
            q = rest + (q - rest).detach()
            rest, total = rest - q.detach(), total + q
        return F.mse_loss(self.decoder(total), x, reduction="none").sum(-1).mean() + loss


class Light(nn.Module):
    """LightGCN: a fixed graph's normed matrix, sparse, three times; BPR with a penalty by the batch's rows."""

    def __init__(self, users=6, things=7, width=8):
        super().__init__()
        self.users, self.things = nn.Embedding(users, width), nn.Embedding(things, width)
        seen = (torch.rand(users, things) < 0.4).float()
        whole = torch.zeros(users + things, users + things)
        whole[:users, users:], whole[users:, :users] = seen, seen.T
        degree = whole.sum(1).clamp(min=1).pow(-0.5)
        self.register_buffer("adjacency", degree[:, None] * whole * degree[None], persistent=False)

    def forward(self, users, good, bad):
        x = torch.cat([self.users.weight, self.things.weight])
        layers = [x]
        for _ in range(3):
            x = torch.mm(self.adjacency, x)
            layers.append(x)
        u, i = torch.split(torch.stack(layers, dim=1).mean(dim=1), [6, 7])
        u, p, n = u[users], i[good], i[bad]
        own = self.users(users), self.things(good), self.things(bad)
        reg = 0.5 * sum(x.norm(2).pow(2) for x in own) / float(len(users))
        return F.softplus((u * n).sum(1) - (u * p).sum(1)).mean() + 1e-4 * reg


class Indexed(nn.Module):
    """A table that is a parameter, read by an index."""

    def __init__(self, rows=9, width=4):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(rows, width)), nn.Linear(width, 3)

    def forward(self, ids, y):
        return F.cross_entropy(self.head(self.table[ids].mean(1)), y)


class Behaviour(nn.Module):
    """BST: what was clicked and what may be, with times and a mask, through a transformer; a bag of genres."""

    def __init__(self, things=20, width=8):
        super().__init__()
        self.things, self.times = nn.Embedding(things, width, padding_idx=0), nn.Embedding(8, width)
        self.genres = nn.EmbeddingBag(6, 4, mode="sum")
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(
            2 * width, 2, 16, 0.0, nn.LeakyReLU(), batch_first=True), 1, enable_nested_tensor=False)
        self.mlp = mlp(2 * width * 7 + 4, 16, 8, 1, act=nn.LeakyReLU)

    def forward(self, history, thing, times, genres, label):
        seq = torch.cat([history, thing.unsqueeze(1)], dim=1)
        x = torch.cat([self.things(seq), self.times(times)], dim=-1)
        x = self.body(x, src_key_padding_mask=seq.eq(0))
        logit = self.mlp(torch.cat([x.flatten(1), self.genres(genres)], dim=1)).squeeze(-1)
        return F.binary_cross_entropy(torch.sigmoid(logit), label)


# ---- graphs ----

class Graphormer(nn.Module):
    """Attention over nodes, biased by shortest paths and by the edges along them; degrees; a node for the graph."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads, self.atoms, self.degree = heads, nn.Embedding(10, width, padding_idx=0), nn.Embedding(5, width)
        self.token, self.path = nn.Embedding(1, width), nn.Embedding(6, heads, padding_idx=0)
        self.edge, self.along = nn.Embedding(5, heads, padding_idx=0), nn.Embedding(3 * heads * heads, 1)
        self.virtual = nn.Embedding(1, heads)
        self.qkv, self.out, self.head = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, atoms, degrees, paths, edges, y):
        n, t = atoms.shape
        bias = torch.zeros(n, self.heads, t + 1, t + 1)
        bias[:, :, 1:, 1:] = bias[:, :, 1:, 1:] + self.path(paths).permute(0, 3, 1, 2)
        v = self.virtual.weight.view(1, self.heads, 1)
        bias[:, :, 1:, 0] = bias[:, :, 1:, 0] + v
        bias[:, :, 0, :] = bias[:, :, 0, :] + v
        far = paths.clone()
        far[far == 0] = 1
        far = torch.where(far > 1, far - 1, far).clamp(0, 3)
        e = self.edge(edges).permute(3, 0, 1, 2, 4).reshape(3, -1, self.heads)
        e = torch.bmm(e, self.along.weight.reshape(-1, self.heads, self.heads)[:3])
        e = e.reshape(3, n, t, t, self.heads).permute(1, 2, 3, 0, 4)
        bias[:, :, 1:, 1:] = bias[:, :, 1:, 1:] + (e.sum(-2) / far.float().unsqueeze(-1)).permute(0, 3, 1, 2)
        x = self.atoms(atoms) + self.degree(degrees)
        x = torch.cat([self.token.weight.unsqueeze(0).repeat(n, 1, 1), x], dim=1)
        hidden = torch.cat([torch.zeros(n, 1, dtype=torch.bool), atoms.eq(0)], dim=1)
        q, k, v = self.qkv(self.norms[0](x)).view(n, t + 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + bias
        attn = attn.masked_fill(hidden[:, None, None], float("-inf")).softmax(-1)
        x = x + self.out((attn @ v).transpose(1, 2).reshape(n, t + 1, -1))
        return F.l1_loss(self.head(self.norms[1](x).mean(1)).squeeze(-1), y)


class PaiNN(nn.Module):
    """Scalars and vectors of atoms, passed to neighbours by radial filters, with a smooth end of the distance."""

    def __init__(self, width=6, radial=4, cutoff=4.0):
        super().__init__()
        self.z, self.cutoff, self.width = nn.Embedding(10, width), cutoff, width
        self.phi, self.filter = mlp(width, width, 3 * width, act=nn.SiLU), nn.Linear(radial, 3 * width)
        self.uv, self.mix = nn.Linear(width, 2 * width, bias=False), mlp(2 * width, width, 3 * width, act=nn.SiLU)
        self.out = mlp(width, width, 1, act=nn.SiLU)
        self.register_buffer("n", torch.arange(1, radial + 1) * math.pi / cutoff)

    def forward(self, z, at, energy):
        t = z.shape[1]
        i, j = (~torch.eye(t, dtype=torch.bool)).nonzero().unbind(1)
        r = at[:, j] - at[:, i]
        d = torch.linalg.vector_norm(r, dim=-1, keepdim=True)
        ends = 0.5 * (torch.cos(d * math.pi / self.cutoff) + 1.0) * (d < self.cutoff).float()
        filters = self.filter(torch.sin(d * self.n) / d) * ends
        q, mu = self.z(z), torch.zeros(*z.shape, 3, self.width)
        for _ in range(2):
            x = self.phi(q)[:, j] * filters
            dq, dr, dm = x.split(self.width, dim=-1)
            dmu = dr.unsqueeze(-2) * (r / d).unsqueeze(-1) + dm.unsqueeze(-2) * mu[:, j]
            q = q + torch.zeros_like(q).index_add_(1, i, dq)
            mu = mu + torch.zeros_like(mu).index_add_(1, i, dmu)
            u, v = self.uv(mu).chunk(2, dim=-1)
            norm = torch.sqrt((u ** 2).sum(-2) + 1e-8)
            a, b, c = self.mix(torch.cat([q, norm], dim=-1)).split(self.width, dim=-1)
            q, mu = q + a + c * (u * v).sum(-2), mu + b.unsqueeze(-2) * v
        return F.mse_loss(self.out(q).squeeze(-1).sum(1), energy)


# ---- physics ----

class DeepONet(nn.Module):
    """A branch for functions by their values at sensors, a trunk for places; a periodic feature; relative errors."""

    def __init__(self, sensors=10, width=8, p=6):
        super().__init__()
        self.branch = nn.Sequential(nn.Unflatten(1, (1, sensors)), nn.Conv1d(1, 4, 3, 2), nn.GELU(), nn.Flatten(),
                                    nn.LazyLinear(p))
        self.branch(torch.zeros(1, sensors))
        self.trunk, self.bias = mlp(3, width, width, p, act=nn.Tanh), nn.Parameter(torch.zeros(1))

    def forward(self, u, at, s):
        at = torch.cat([torch.cos(2 * torch.pi * at[..., :1]), torch.sin(2 * torch.pi * at[..., :1]), at[..., 1:]], -1)
        y = torch.einsum("bp,bqp->bq", self.branch(u), self.trunk(at)) + self.bias
        return torch.mean(torch.norm(y - s, 2, dim=1) / torch.norm(s, 2, dim=1))


class Burgers(nn.Module):
    """A PINN of Burgers' equation whose derivatives are written out, layer by layer; ends and starts by weights."""

    def __init__(self, width=8, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2 if i == 0 else width, width) for i in range(layers))
        self.last, self.nu = nn.Linear(width, 1), 0.01 / math.pi

    def forward(self, at, start, value):
        u, ux, ut, uxx = at, torch.zeros_like(at), torch.zeros_like(at), torch.zeros_like(at)
        ux[:, 0], ut[:, 1] = 1.0, 1.0
        for f in self.layers:
            u, ux, ut, uxx = f(u), F.linear(ux, f.weight), F.linear(ut, f.weight), F.linear(uxx, f.weight)
            u = torch.tanh(u)
            d = 1 - u ** 2
            uxx = d * uxx - 2 * u * d * ux ** 2
            ux, ut = d * ux, d * ut
        u, ux, ut, uxx = self.last(u), *(F.linear(z, self.last.weight) for z in (ux, ut, uxx))
        inside = ut + u * ux - self.nu * uxx
        h = start
        for f in self.layers:
            h = torch.tanh(f(h))
        return torch.mean(inside ** 2) + 10 * F.mse_loss(self.last(h), value)


class Slices(nn.Module):
    """Transolver: points are gathered into slices by a softmax of what they are, slices attend, and give back."""

    def __init__(self, width=8, heads=2, slices=4):
        super().__init__()
        self.heads, size = heads, width // heads
        self.into, self.x, self.fx = mlp(3, width, width, act=nn.GELU), nn.Linear(width, width), nn.Linear(width, width)
        self.slice, self.qkv = nn.Linear(size, slices), nn.Linear(size, 3 * size, bias=False)
        self.temperature = nn.Parameter(torch.ones(1, heads, 1, 1) * 0.5)
        nn.init.orthogonal_(self.slice.weight)
        self.out, self.norm, self.head = nn.Linear(width, width), nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, at, y):
        h = self.into(at)
        n, t, c = h.shape
        z = self.norm(h)
        x, fx = (f(z).reshape(n, t, self.heads, -1).permute(0, 2, 1, 3).contiguous() for f in (self.x, self.fx))
        w = F.softmax(self.slice(x) / torch.clamp(self.temperature, min=0.1, max=5), dim=-1)
        token = torch.einsum("bhnc,bhng->bhgc", fx, w) / (w.sum(2) + 1e-5)[..., None]
        q, k, v = self.qkv(token).chunk(3, dim=-1)
        token = torch.matmul(F.softmax(torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5, dim=-1), v)
        back = torch.einsum("bhgc,bhng->bhnc", token, w)
        h = h + self.out(back.permute(0, 2, 1, 3).flatten(2))
        d, norm = (self.head(h).squeeze(-1) - y).norm(dim=1), y.norm(dim=1)
        return (d / norm).mean()


def path(*shape, below):
    return torch.randint(1, below, (BATCH, *shape))


MODELS = {
    "IMPALA": lambda: (Corrected(), (reals(5, 5), ids(5, below=4), reals(5), torch.rand(BATCH, 5).round(), -torch.rand(
        BATCH, 5) - 1), {}),
    "TD3+BC": lambda: (Cautious(), (reals(5), torch.rand(BATCH, 2) * 2 - 1, reals(1), reals(5), torch.rand(
        BATCH, 1).round(), reals(2)), {}),
    "QMIX": lambda: (Monotone(), (reals(2, 3, 4), ids(2, 3, below=4), reals(2, 5), reals(2)), {}),
    "FT-Transformer": lambda: (Tokens(), (reals(3), ids(2, below=4), reals()), {}),
    "TimeXer": lambda: (Exogenous(), (reals(12, 2), reals(12, 3), reals(3, 2)), {}),
    "FEDformer": lambda: (Modes(), (reals(16, 2), reals(16, 2)), {}),
    "RQ-VAE": lambda: (Residuals(), (reals(10),), {}),
    "LightGCN": lambda: (Light(), (ids(below=6), ids(below=7), ids(below=7)), {}),
    "rows by index": lambda: (Indexed(), (ids(3, below=9), ids(below=3)), {}),
    "Graphormer": lambda: (Graphormer(), (path(4, below=10), ids(4, below=5), ids(4, 4, below=6), ids(
        4, 4, 3, below=5), reals()), {}),
    "DeepONet": lambda: (DeepONet(), (reals(10), torch.rand(BATCH, 5, 2), reals(5)), {}),
    "Burgers, written out": lambda: (Burgers(), (reals(2), reals(2), reals(1)), {}),
    "Transolver": lambda: (Slices(), (reals(10, 3), reals(10)), {}),
    "DreamerV3": lambda: (DreamerV3(), (reals(3, 6), reals(3, 2), reals(3), torch.rand(BATCH, 3).round(),
                                        reals(3, 3, 4)), {}),
    "TabM, expanded": lambda: (Heads(), (reals(5), ids(below=3)), {}),
    "BST": lambda: (Behaviour(), (ids(6, below=20), path(below=20), ids(7, below=8), ids(3, below=6), torch.rand(
        BATCH).round()), {}),
    "PaiNN": lambda: (PaiNN(), (ids(4, below=10), reals(4, 3) * 2, reals()), {})}
REFUSED = {
    "SAINT": lambda: (Samples(), (reals(4), ids(below=3)), {})}
