# Models of fields that the other lists lack, as people write them: recommenders, graphs by dense matrices, series,
# speech, points.  Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


def mlp(*widths, act=nn.ReLU):
    layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1])


# ---- recommenders ----

class Dice(nn.Module):
    """DIN's activation: a batch norm says how much of a slope."""

    def __init__(self, width):
        super().__init__()
        self.bn, self.alpha = nn.BatchNorm1d(width, affine=False), nn.Parameter(torch.rand(width))

    def forward(self, x):
        p = torch.sigmoid(self.bn(x))
        return p * x + (1 - p) * self.alpha * x


class Interest(nn.Module):
    """DIN: what was bought, weighed by what is shown; padding counts nothing."""

    def __init__(self, items=30, width=8):
        super().__init__()
        self.item = nn.Embedding(items, width, padding_idx=0)
        self.attend = nn.Sequential(nn.Linear(4 * width, 16), nn.PReLU(), nn.Linear(16, 1))
        self.fc, self.act, self.out = nn.Linear(3 * width, 16), Dice(16), nn.Linear(16, 1)

    def forward(self, history, shown, clicked):
        h, q = self.item(history), self.item(shown)
        wide = q.unsqueeze(1).expand(-1, h.size(1), -1)
        score = self.attend(torch.cat([wide, h, wide - h, wide * h], dim=-1)).squeeze(-1)
        score = score.masked_fill(history == 0, -1e9) / h.size(-1) ** 0.5
        user = torch.bmm(score.softmax(-1).unsqueeze(1), h).squeeze(1)
        y = self.out(self.act(self.fc(torch.cat([user, q, user * q], -1)))).squeeze(-1)
        return F.binary_cross_entropy(torch.sigmoid(y), clicked)


class Fields(nn.Module):
    """Rows of one table for all fields, by where each field's begin."""

    def __init__(self, sizes=(7, 5, 9), width=8):
        super().__init__()
        self.table, self.width, self.fields = nn.Embedding(sum(sizes), width), width, len(sizes)
        self.register_buffer("offsets", torch.tensor([0, *sizes[:-1]]).cumsum(0))

    def forward(self, x, clicked):
        y = self.tell(self.table(x + self.offsets.unsqueeze(0)))
        return F.binary_cross_entropy_with_logits(y, clicked)


class Crossed(Fields):
    """DCN v2 with a mixture of low ranks."""

    def __init__(self, rank=4, experts=2, layers=2):
        super().__init__()
        wide = self.fields * self.width
        self.u = nn.ParameterList(torch.randn(experts, wide, rank) * 0.2 for _ in range(layers))
        self.v = nn.ParameterList(torch.randn(experts, rank, wide) * 0.2 for _ in range(layers))
        self.c = nn.ParameterList(torch.randn(experts, rank, rank) * 0.2 for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(wide, 1, bias=False) for _ in range(experts))
        self.bias = nn.ParameterList(torch.zeros(wide, 1) for _ in range(layers))
        self.out = nn.Linear(wide, 1)

    def tell(self, x):
        x0 = x.flatten(1).unsqueeze(2)
        x = x0
        for u, v, c, bias in zip(self.u, self.v, self.c, self.bias):
            gates, found = [], []
            for k, gate in enumerate(self.gates):
                gates.append(gate(x.squeeze(2)))
                y = torch.tanh(torch.matmul(v[k], x))
                y = torch.tanh(torch.matmul(c[k], y))
                found.append((x0 * (torch.matmul(u[k], y) + bias)).squeeze(2))
            x = torch.matmul(torch.stack(found, 2), torch.stack(gates, 1).softmax(1)) + x
        return self.out(x.squeeze(2)).squeeze(1)


class Compressed(Fields):
    """xDeepFM: products of all pairs of rows, compressed by a convolution."""

    def __init__(self, maps=(6, 4)):
        super().__init__()
        self.convs, last = nn.ModuleList(), self.fields
        for n in maps:
            self.convs.append(nn.Conv1d(last * self.fields, n, 1))
            last = n // 2
        self.out = nn.Linear(maps[0] // 2 + maps[-1] // 2, 1)

    def tell(self, x):
        x0, h, found = x, x, []
        for conv in self.convs:
            z = torch.einsum("bhd,bmd->bhmd", h, x0).reshape(len(x), -1, x.shape[-1])
            h, kept = torch.split(F.relu(conv(z)), conv.out_channels // 2, dim=1)
            found.append(kept)
        return self.out(torch.cat(found, 1).sum(2)).squeeze(1)


class Interacting(Fields):
    """AutoInt: attention over fields, a residual."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(self.width, 2, batch_first=True)
        self.res, self.out = nn.Linear(self.width, self.width), nn.Linear(self.width * self.fields, 1)

    def tell(self, x):
        y, _ = self.attend(x, x, x)
        return self.out(F.relu(y + self.res(x)).flatten(1)).flatten()


class Gates(nn.Module):
    """MMoE: experts that tasks share, a gate a task."""

    def __init__(self, width=10, experts=3, tasks=2):
        super().__init__()
        self.experts = nn.ModuleList(mlp(width, 8) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(tasks))
        self.towers = nn.ModuleList(mlp(8, 8, 1) for _ in range(tasks))

    def forward(self, x, labels):
        e = torch.stack([f(x) for f in self.experts], 1)
        y = [t((g(x).softmax(-1).unsqueeze(-1) * e).sum(1)) for g, t in zip(self.gates, self.towers)]
        return sum(F.binary_cross_entropy_with_logits(y[i].squeeze(-1), labels[:, i]) for i in range(len(y)))


class Sampled(nn.Module):
    """Two towers; all things of the batch are negatives, corrected by how often they are there."""

    def __init__(self, width=8):
        super().__init__()
        self.user, self.item = nn.Embedding(20, width), nn.Embedding(30, width)
        self.a, self.b = mlp(width, 16, width), mlp(width, 16, width)

    def forward(self, user, item, often):
        u, v = F.normalize(self.a(self.user(user)), dim=1), F.normalize(self.b(self.item(item)), dim=1)
        logits = torch.mm(u, v.t()) / 0.05 - F.logsigmoid(often)[None, :]
        return F.cross_entropy(logits, torch.arange(logits.size(0), device=logits.device))


# ---- graphs by dense matrices ----

def normalised(adj, dtype):
    adj = adj.to(dtype) + torch.eye(adj.size(-1), device=adj.device)
    d = adj.sum(-1).pow(-0.5)
    return d.unsqueeze(-1) * adj * d.unsqueeze(-2)


class Convolved(nn.Module):
    """GCN: a class for every graph."""

    def __init__(self, width=8):
        super().__init__()
        self.a, self.b, self.fc = nn.Linear(4, width), nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x, adj, y):
        adj = normalised(adj, x.dtype)
        x = F.relu(adj @ self.a(x))
        x = F.relu(torch.bmm(adj, self.b(x)))
        return F.cross_entropy(self.fc(x.mean(1)), y)


class Attended(nn.Module):
    """GAT: leaky scores of pairs, where there are edges."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.w, self.heads = nn.Linear(4, heads * width, bias=False), heads
        self.left, self.right = (nn.Parameter(torch.randn(1, 1, heads, width) * 0.3) for _ in "ab")
        self.fc = nn.Linear(heads * width, 3)

    def forward(self, x, adj, labels):
        h = self.w(x).view(x.size(0), x.size(1), self.heads, -1)
        e = F.leaky_relu((h * self.left).sum(-1).unsqueeze(2) + (h * self.right).sum(-1).unsqueeze(1), 0.2)
        e = e.masked_fill(~(adj | torch.eye(adj.shape[1], dtype=torch.bool)).unsqueeze(-1), float("-inf"))
        h = F.elu(torch.einsum("bijh,bjhd->bihd", F.softmax(e, dim=2), h).flatten(2))
        return F.cross_entropy(self.fc(h).transpose(1, 2), labels)


class Pooled(nn.Module):
    """DiffPool: nodes are assigned to few; a link and an entropy loss."""

    def __init__(self, width=8, few=3):
        super().__init__()
        self.embed, self.pool, self.last = nn.Linear(4, width), nn.Linear(4, few), nn.Linear(width, width)
        self.fc = nn.Linear(width, 3)

    def forward(self, x, adj, y):
        s = torch.softmax(normalised(adj, x.dtype) @ self.pool(x), dim=-1)
        z = F.relu(normalised(adj, x.dtype) @ self.embed(x))
        link = torch.norm(adj.to(x.dtype) - s @ s.transpose(1, 2), p=2) / adj.numel()
        entropy = (-s * torch.log(s + 1e-15)).sum(-1).mean()
        x, small = s.transpose(1, 2) @ z, s.transpose(1, 2) @ adj.to(x.dtype) @ s
        x = F.relu(small @ self.last(x))
        return F.cross_entropy(self.fc(x.max(dim=1)[0]), y) + link + 0.1 * entropy


class PooledBySquares(Pooled):
    """The link loss as a mean of squares."""

    def forward(self, x, adj, y):
        s = torch.softmax(normalised(adj, x.dtype) @ self.pool(x), dim=-1)
        z = F.relu(normalised(adj, x.dtype) @ self.embed(x))
        link = ((adj.to(x.dtype) - s @ s.mT) ** 2).mean()
        x, small = s.mT @ z, s.mT @ adj.to(x.dtype) @ s
        return F.cross_entropy(self.fc(F.relu(small @ self.last(x)).amax(1)), y) + link


class Isomorphic(nn.Module):
    """GIN: sums of neighbours, batch norms over nodes, a readout of every layer."""

    def __init__(self, width=8):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(2))
        self.mlps = nn.ModuleList(mlp(a, width, width) for a in (4, width))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in "ab")
        self.heads = nn.ModuleList(nn.Linear(width, 3) for _ in "ab")

    def forward(self, x, adj, y):
        total = 0
        for i, (f, norm, head) in enumerate(zip(self.mlps, self.norms, self.heads)):
            x = f((1 + self.eps[i]) * x + adj.to(x.dtype) @ x)
            x = F.relu(norm(x.transpose(1, 2)).transpose(1, 2))
            total = total + head(x.sum(1))
        return F.cross_entropy(total, y)


class Neighbours(nn.Module):
    """GraphSAGE: the largest of the neighbours' features."""

    def __init__(self, width=8):
        super().__init__()
        self.pool, self.join, self.fc = nn.Linear(4, width), nn.Linear(4 + width, width), nn.Linear(width, 3)

    def forward(self, x, adj, y):
        h = F.relu(self.pool(x)).unsqueeze(1).masked_fill(~adj.unsqueeze(-1), -1e4).max(dim=2).values
        h = F.normalize(F.relu(self.join(torch.cat([x, h.clamp(min=0)], -1))), p=2, dim=-1)
        return F.cross_entropy(self.fc(h.mean(1)), y)


class Nearest(nn.Module):
    """DGCNN: every point beside its nearest three."""

    def __init__(self, k=3, width=8):
        super().__init__()
        self.k, self.conv, self.fc = k, nn.Conv2d(6, width, 1, bias=False), nn.Linear(width, 3)
        self.bn = nn.BatchNorm2d(width)

    def forward(self, x, y):
        inner = -2 * torch.matmul(x.transpose(2, 1), x)
        xx = torch.sum(x ** 2, dim=1, keepdim=True)
        near = (-xx - inner - xx.transpose(2, 1)).topk(self.k, dim=-1)[1]
        n, c, points = x.shape
        own = x.transpose(2, 1)
        index = near.reshape(n, points * self.k, 1).expand(-1, -1, c)
        other = own.gather(1, index).view(n, points, self.k, c)
        own = own.unsqueeze(2).expand(-1, -1, self.k, -1)
        z = torch.cat([other - own, own], 3).permute(0, 3, 1, 2)
        z = F.leaky_relu(self.bn(self.conv(z)), 0.2).max(dim=-1)[0]
        return F.cross_entropy(self.fc(z.max(-1)[0]), y)


class Turned(nn.Module):
    """PointNet: a matrix that is computed turns the points, and is kept near a rotation."""

    def __init__(self, width=8):
        super().__init__()
        self.conv, self.fc = nn.Conv1d(3, width, 1), nn.Linear(width, 9)
        self.feat, self.head = nn.Conv1d(3, width, 1), nn.Linear(width, 3)

    def forward(self, x, y):
        t = torch.max(F.relu(self.conv(x)), 2)[0]
        t = self.fc(t).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype).repeat(x.size(0), 1, 1)
        z = F.relu(self.feat(torch.bmm(x.transpose(2, 1), t).transpose(2, 1)))
        near = torch.mean(torch.norm(torch.bmm(t, t.transpose(2, 1)) - torch.eye(3, dtype=x.dtype)[None], dim=(1, 2)))
        return F.cross_entropy(self.head(torch.max(z, 2)[0]), y) + 0.001 * near


class Set(nn.Module):
    """Set transformer: induced points, a seed that pools."""

    def __init__(self, width=8, points=3):
        super().__init__()
        self.induced, self.seed = nn.Parameter(torch.randn(1, points, width)), nn.Parameter(torch.randn(1, 1, width))
        self.first, self.head = nn.Linear(2, width), nn.Linear(width, 1)
        self.attend = nn.ModuleList(nn.MultiheadAttention(width, 2, batch_first=True) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def block(self, i, q, k):
        return self.norms[i](q + self.attend[i](q, k, k)[0])

    def forward(self, x, y):
        x = self.first(x)
        h = self.block(0, self.induced.repeat(len(x), 1, 1), x)
        x = self.block(1, x, h)
        return F.mse_loss(self.head(self.block(2, self.seed.expand(x.size(0), -1, -1), x)).squeeze(), y)


# ---- series ----

class Reversible(nn.Module):
    """PatchTST with RevIN: patches of every channel by itself, means that are put back."""

    def __init__(self, long=16, ahead=4, patch=4, stride=2, width=8, channels=3):
        super().__init__()
        self.patch, self.stride, n = patch, stride, (long - patch) // stride + 2
        self.gain, self.shift = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.pad, self.fc, self.at = nn.ReplicationPad1d((0, stride)), nn.Linear(patch, width), nn.Parameter(
            torch.randn(n, width) * 0.02)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 2, 16, 0.0, "gelu", batch_first=True), 1,
                                          enable_nested_tensor=False)
        self.head = nn.Linear(n * width, ahead)

    def forward(self, x, y):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = (x - mean) / std * self.gain + self.shift
        n, long, c = x.shape
        z = self.pad(x.permute(0, 2, 1)).unfold(-1, self.patch, self.stride)
        z = self.fc(z) + self.at
        z = self.body(z.reshape(n * c, z.shape[2], z.shape[3]))
        z = self.head(z.reshape(n, c, -1)).permute(0, 2, 1)
        return F.mse_loss((z - self.shift) / (self.gain + 1e-10) * std + mean, y)


class Periods(nn.Module):
    """TimesNet's block, where the periods are the input's strongest."""

    def __init__(self, width=4, k=2):
        super().__init__()
        self.k, self.conv, self.fc = k, nn.Conv2d(width, width, 3, padding=1), nn.Linear(width, 1)

    def forward(self, x, y):
        power = torch.fft.rfft(x, dim=1).abs().mean(0).mean(-1)
        power[0] = 0
        _, top = torch.topk(power, self.k)
        n, t, c = x.shape
        for at in top.detach().cpu().numpy():
            period = t // int(at)
            z = x[:, :t // period * period].reshape(n, -1, period, c).permute(0, 3, 1, 2)
            x = x + F.pad(self.conv(z).permute(0, 2, 3, 1).reshape(n, -1, c), (0, 0, 0, t - t // period * period))
        return F.mse_loss(self.fc(x[:, -1]).squeeze(-1), y)


class Stacks(nn.Module):
    """N-BEATS: blocks of trends and seasons, each takes away what it explains; MAPE and SMAPE."""

    def __init__(self, back=12, ahead=4, width=16, degree=2):
        super().__init__()
        self.nets = nn.ModuleList(mlp(back, width, width, 2 * n) for n in (degree + 1, ahead))
        t, u = torch.arange(back) / back, torch.arange(ahead) / ahead
        self.register_buffer("trend", torch.stack([torch.cat([t, u]) ** i for i in range(degree + 1)]))
        grid = torch.cat([t, u])
        self.register_buffer("season", torch.stack([f(2 * math.pi * i * grid) for i in range(ahead // 2)
                                                    for f in (torch.cos, torch.sin)]))
        self.back = back

    def forward(self, x, y):
        total = 0
        for net, basis in zip(self.nets, (self.trend, self.season)):
            a, b = net(x).chunk(2, -1)
            x = x - a @ basis[:, :self.back]
            total = total + b @ basis[:, self.back:]
        return (200 * (total - y).abs() / (total.abs() + y.abs() + 1e-3)).mean()


class Likelihood(nn.Module):
    """DeepAR: a recurrence that says a normal density, scaled by the mean."""

    def __init__(self, width=8):
        super().__init__()
        self.rnn, self.mean, self.scale = nn.LSTM(2, width, 2, batch_first=True), nn.Linear(width, 1), nn.Linear(
            width, 1)

    def forward(self, x, covariate, y):
        by = 1 + x.abs().mean(1, keepdim=True)
        h, _ = self.rnn(torch.stack([x / by, covariate], -1))
        d = torch.distributions.Normal(self.mean(h).squeeze(-1) * by, F.softplus(self.scale(h)).squeeze(-1) * by)
        return -d.log_prob(y).mean()


class Quantiles(nn.Module):
    """Temporal fusion: gated residuals, variables that are selected, pinball losses."""

    def __init__(self, width=8, variables=3):
        super().__init__()
        self.each = nn.ModuleList(nn.Linear(1, width) for _ in range(variables))
        self.select, self.gate = nn.Linear(variables * width, variables), nn.Linear(width, 2 * width)
        self.a, self.b, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)
        self.rnn, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(width, 3)
        self.register_buffer("q", torch.tensor([0.1, 0.5, 0.9]))

    def forward(self, x, y):
        e = torch.stack([f(x[..., i:i + 1]) for i, f in enumerate(self.each)], dim=-1)
        w = self.select(e.flatten(2)).softmax(-1).unsqueeze(2)
        x = (w * e).sum(-1)
        h, _ = self.rnn(x)
        h = self.norm(x + F.glu(self.gate(self.b(F.elu(self.a(h))))))
        apart = y.unsqueeze(-1) - self.head(h)
        return torch.max((self.q - 1) * apart, self.q * apart).sum(-1).mean()


class Inverted(nn.Module):
    """iTransformer: every series is a token; what is ahead of each."""

    def __init__(self, long=12, ahead=4, width=8):
        super().__init__()
        self.embed, self.head = nn.Linear(long, width), nn.Linear(width, ahead)
        self.body = nn.TransformerEncoderLayer(width, 2, 16, 0.0, "gelu", batch_first=True)

    def forward(self, x, y):
        means = x.mean(1, keepdim=True).detach()
        x = x - means
        std = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5)
        x = x / std
        y_hat = self.head(self.body(self.embed(x.permute(0, 2, 1)))).permute(0, 2, 1)
        y_hat = y_hat * std[:, 0, :].unsqueeze(1).repeat(1, 4, 1) + means[:, 0, :].unsqueeze(1).repeat(1, 4, 1)
        return nn.functional.l1_loss(y_hat, y)


# ---- speech, texts in pictures ----

class Read(nn.Module):
    """CRNN: columns of an image through a recurrence; CTC."""

    def __init__(self, classes=6):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU(), nn.MaxPool2d((4, 1)))
        self.rnn, self.fc, self.blank = nn.LSTM(8, 8, bidirectional=True), nn.Linear(16, classes), classes - 1

    def forward(self, x, texts, lengths):
        x = self.net(x).squeeze(2).permute(2, 0, 1)
        y = self.fc(self.rnn(x)[0]).log_softmax(2)
        steps = torch.full((x.size(1),), y.size(0), dtype=torch.long)
        return F.ctc_loss(y, texts, steps, lengths, blank=self.blank, zero_infinity=True)


class Recurrent(nn.Module):
    """A ConvLSTM over frames."""

    def __init__(self, width=4):
        super().__init__()
        self.conv, self.out, self.width = nn.Conv2d(1 + width, 4 * width, 3, padding=1), nn.Conv2d(width, 1, 1), width

    def forward(self, x, y):
        n, t, _, rows, columns = x.shape
        h = torch.zeros(n, self.width, rows, columns, device=x.device)
        c = torch.zeros_like(h)
        for i in range(t):
            a, f, o, g = torch.split(self.conv(torch.cat([x[:, i], h], 1)), self.width, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(a) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return F.binary_cross_entropy_with_logits(self.out(h), y)


class Chained(nn.Module):
    """BiLSTM-CRF: the sum over all tags by logarithms, where the mask says so."""

    def __init__(self, words=20, tags=4, width=8):
        super().__init__()
        self.words, self.rnn = nn.Embedding(words, width), nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.fc, self.moves = nn.Linear(2 * width, tags), nn.Parameter(torch.randn(tags, tags))
        self.start, self.end = nn.Parameter(torch.randn(tags)), nn.Parameter(torch.randn(tags))

    def forward(self, x, tags, mask):
        e = self.fc(self.rnn(self.words(x))[0])
        total, mask = self.start + e[:, 0], mask.to(e.dtype)
        for i in range(1, e.size(1)):
            after = torch.logsumexp(total.unsqueeze(2) + self.moves + e[:, i].unsqueeze(1), dim=1)
            total = torch.where(mask[:, i].unsqueeze(1) > 0, after, total)
        total = torch.logsumexp(total + self.end, dim=1)
        one = F.one_hot(tags, e.size(-1)).to(e.dtype)
        each = (e * one).sum(-1)
        steps = torch.einsum("bti,ij,btj->bt", one[:, :-1], self.moves, one[:, 1:])
        score = (one[:, 0] * self.start).sum(-1) + each[:, 0] + ((each[:, 1:] + steps) * mask[:, 1:]).sum(1)
        last = (one * (mask - F.pad(mask[:, 1:], (0, 1))).unsqueeze(-1)).sum(1)
        return (total - score - (last * self.end).sum(-1)).mean()


class Located(nn.Module):
    """Tacotron's decoder: attention that knows where it was, three steps."""

    def __init__(self, words=20, width=8, mels=5):
        super().__init__()
        self.words, self.encoder = nn.Embedding(words, width), nn.GRU(width, width, batch_first=True)
        self.pre, self.cell = nn.Linear(mels, width), nn.LSTMCell(2 * width, width)
        self.q, self.m, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1, bias=False)
        self.place, self.loc = nn.Conv1d(2, 4, 3, padding=1, bias=False), nn.Linear(4, width, bias=False)
        self.mel, self.stop = nn.Linear(2 * width, mels), nn.Linear(2 * width, 1)

    def forward(self, x, mels, stops):
        memory = self.encoder(self.words(x))[0]
        n, t, c = memory.shape
        h = c_ = context = memory.new_zeros(n, c)
        weights = total = memory.new_zeros(n, t)
        frame, made, ends = mels.new_zeros(n, mels.size(2)), [], []
        for i in range(mels.size(1)):
            h, c_ = self.cell(torch.cat([F.relu(self.pre(frame)), context], -1), (h, c_))
            seen = self.loc(self.place(torch.stack([weights, total], 1)).transpose(1, 2))
            e = self.v(torch.tanh(self.q(h).unsqueeze(1) + self.m(memory) + seen)).squeeze(-1)
            weights = e.softmax(-1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            both = torch.cat([h, context], -1)
            made.append(self.mel(both))
            ends.append(self.stop(both).squeeze(-1))
            frame = mels[:, i]
        return F.mse_loss(torch.stack(made, 1), mels) + F.binary_cross_entropy_with_logits(torch.stack(ends, 1), stops)


def graph(make, labels=()):
    def made():
        a = (torch.rand(BATCH, 6, 6) < 0.5).float()
        return make(), (reals(6, 4), (a + a.mT) > 0, ids(*labels, below=3)), {}
    return made


def clicks():
    return torch.stack([torch.randint(n, (BATCH,)) for n in (7, 5, 9)], 1), torch.rand(BATCH).round()


FIELDS = {"below": {"x": 9}}
MODELS = {
    "DIN": lambda: (Interest(), (ids(5, below=30), ids(below=30), torch.rand(BATCH).round()), {}),
    "DCN v2, mixed": lambda: (Crossed(), clicks(), FIELDS), "xDeepFM": lambda: (Compressed(), clicks(), FIELDS),
    "AutoInt": lambda: (Interacting(), clicks(), FIELDS),
    "MMoE": lambda: (Gates(), (reals(10), torch.rand(BATCH, 2).round()), {}),
    "two towers, logQ": lambda: (Sampled(), (ids(below=20), ids(below=30), torch.rand(BATCH) + 0.1), {}),
    "GCN": graph(Convolved), "GAT": graph(Attended, (6,)), "DiffPool": graph(Pooled), "DiffPool, squares": graph(
        PooledBySquares), "GIN": graph(Isomorphic), "GraphSAGE": graph(Neighbours),
    "DGCNN": lambda: (Nearest(), (reals(3, 7), ids(below=3)), {}),
    "PointNet, turned": lambda: (Turned(), (reals(3, 7), ids(below=3)), {}),
    "set transformer": lambda: (Set(), (reals(6, 2), reals()), {}),
    "PatchTST, RevIN": lambda: (Reversible(), (reals(16, 3), reals(4, 3)), {}),
    "N-BEATS": lambda: (Stacks(), (reals(12), reals(4)), {}),
    "DeepAR": lambda: (Likelihood(), (reals(6), reals(6), reals(6)), {}),
    "TFT": lambda: (Quantiles(), (reals(6, 3), reals(6)), {}),
    "iTransformer": lambda: (Inverted(), (reals(12, 3), reals(4, 3)), {}),
    "CRNN, CTC": lambda: (Read(), (reals(1, 8, 16), ids(3, below=5), torch.randint(1, 4, (BATCH,))),
                          {"below": {"texts": 5, "lengths": 4}}),
    "ConvLSTM": lambda: (Recurrent(), (reals(3, 1, 6, 6), torch.rand(BATCH, 1, 6, 6)), {}),
    "BiLSTM-CRF": lambda: (Chained(), (ids(5, below=20), ids(5, below=4), torch.arange(5) < torch.randint(
        1, 6, (BATCH, 1))), {"below": {"tags": 4}}),
    "Tacotron": lambda: (Located(), (ids(5, below=20), reals(3, 5), torch.rand(BATCH, 3).round()), {})}
REFUSED = {"TimesNet": lambda: (Periods(), (reals(12, 4), reals()), {})}
