# Modules as they are written today: attention of several kinds, losses over what a mask leaves, choices of one's own,
# recommenders, agents, fields.  Each of LANGUAGE and OTHERS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from torch.utils.checkpoint import checkpoint

nn = torch.nn
BATCH, WORDS = 8, 60


def ids(*shape, below=WORDS):
    return torch.randint(below, (BATCH, *shape))


def reals(*shape):
    return torch.randn(BATCH, *shape)


# ---- language models ----

class Nano(nn.Module):
    """nanoGPT: tied weights, labels of -1 that count for nothing."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads, self.wte, self.wpe = heads, nn.Embedding(WORDS, width), nn.Embedding(12, width)
        self.ln_1, self.ln_2, self.ln_f = (nn.LayerNorm(width, bias=False) for _ in range(3))
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.lm_head = nn.Linear(width, WORDS, bias=False)
        self.wte.weight = self.lm_head.weight

    def mix(self, x):
        n, t, c = x.shape
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in self.c_attn(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(n, t, c))

    def block(self, x):
        x = x + self.mix(self.ln_1(x))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x))))

    def logits(self, x):
        x = self.wte(x) + self.wpe(torch.arange(0, x.shape[1], dtype=torch.long))
        return self.lm_head(self.ln_f(self.block(x)))

    def forward(self, x, targets):
        logits = self.logits(x)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


class Checkpointed(Nano):
    """Gradient checkpointing."""

    def logits(self, x):
        return self.lm_head(self.ln_f(checkpoint(self.block, self.wte(x), use_reentrant=False)))


class Compiled(nn.Module):
    """A module within that is compiled."""

    def __init__(self):
        super().__init__()
        self.inner = torch.compile(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 5)), backend="eager")

    def forward(self, x, y):
        return F.cross_entropy(self.inner(x), y)


class Gathered(Nano):
    """The labels' logarithms are gathered, and weighed by a mask that is given."""

    def forward(self, x, targets, mask):
        logp = self.logits(x).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return -((logp * mask).sum(-1) / 10).mean()


class Preferred(Nano):
    """DPO: how much more likely the chosen answer became than the other one."""

    def told(self, x, labels):
        logp = torch.gather(self.logits(x).log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
        return (logp * (labels != 0)).sum(-1)

    def forward(self, chosen, chosen_labels, other, other_labels, before):
        apart = self.told(chosen, chosen_labels) - self.told(other, other_labels) - before
        return -F.logsigmoid(0.1 * apart).mean()


class Padded(Nano):
    """The mean over what is no padding, by a mask of ids."""

    def forward(self, x, targets):
        keep = (x != 0).float()
        each = F.cross_entropy(self.logits(x).transpose(1, 2), targets, reduction="none")
        return (each * keep).sum() / keep.sum().clamp(min=1)


class Weighed(Nano):
    """The mean by a mask that is given; a term over lengths."""

    def forward(self, x, targets, mask, lengths):
        logits = self.logits(x)
        each = F.cross_entropy(logits.view(-1, WORDS), targets.view(-1), reduction="none").view(targets.shape)
        here = torch.arange(x.shape[1])[None] < lengths[:, None]
        return (each * mask).sum() / mask.sum() + 1e-2 * (logits.logsumexp(-1).square() * here).sum() / here.sum()


class Selected(Nano):
    """BERT: the mean over the places of which the label counts, which are taken out."""

    def forward(self, x, targets):
        at = targets != 0
        return F.cross_entropy(self.logits(x)[at], targets[at])


class Alibi(nn.Module):
    """Slopes by heads on how far keys are away, a window, a prefix of which the length is an input."""

    def __init__(self, width=16, heads=4, long=10):
        super().__init__()
        self.table, self.qkv, self.out = nn.Embedding(WORDS, width), nn.Linear(width, 3 * width), nn.Linear(width, WORDS)
        self.heads = heads
        far = torch.arange(long)[None] - torch.arange(long)[:, None]
        self.register_buffer("bias", far * (2.0 ** -torch.arange(1, heads + 1))[:, None, None])
        self.register_buffer("near", (far <= 0) & (far > -5))

    def forward(self, x, prefix, labels):
        n, t = x.shape
        q, k, v = self.qkv(self.table(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + self.bias
        seen = self.near | (torch.arange(t) < prefix[:, None])[:, None]
        scores = scores.masked_fill(~seen[:, None], torch.finfo(scores.dtype).min)
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return F.cross_entropy(self.out(y).transpose(1, 2), labels)


class Chosen(Nano):
    """Mixtral by hand: every expert is asked about the tokens that chose it."""

    def __init__(self, width=16, experts=4):
        super().__init__(width)
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 24), nn.SiLU(), nn.Linear(24, width))
                                     for _ in range(experts))

    def ask(self, x):
        weights, chosen = torch.topk(self.gate(x), 2)
        weights = F.softmax(weights, dim=1, dtype=torch.float).to(x.dtype)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            at, nth = torch.where(chosen == i)
            y[at] += weights[at, nth, None] * expert(x[at])
        return y

    def block(self, x):
        x = x + self.mix(self.ln_1(x))
        return x + self.ask(self.ln_2(x).view(-1, x.shape[-1])).view(x.shape)


class Added(Chosen):
    """The same as transformers had it for long: a mask by experts, `index_add_`."""

    def ask(self, x):
        p = F.softmax(self.gate(x), dim=1, dtype=torch.float)
        p, chosen = torch.topk(p, 2, dim=-1)
        p = p / p.sum(dim=-1, keepdim=True)
        y = torch.zeros(x.shape, dtype=x.dtype)
        mask = F.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            nth, at = torch.where(mask[i])
            now = x[None, at].reshape(-1, x.shape[-1])
            y.index_add_(0, at, expert(now) * p[at, nth, None])
        return y


class Switched(Chosen):
    """The best expert alone, its tokens by a mask."""

    def ask(self, x):
        p, chosen = self.gate(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = chosen == i
            y[mine] = expert(x[mine])
        return y * p[:, None]


# ---- images ----

class Masked(nn.Module):
    """SimMIM: patches are hidden by a mask that is given, and only these are trained."""

    def __init__(self, width=16):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(1, 1, width) / 4)
        self.body = nn.TransformerEncoderLayer(width, 4, 32, 0.0, batch_first=True, norm_first=True)
        self.back = nn.Sequential(nn.Conv2d(width, 48, 1), nn.PixelShuffle(4))

    def forward(self, x, mask):
        y = self.patch(x).flatten(2).transpose(1, 2)
        w = mask.flatten(1).unsqueeze(-1).type_as(y)
        y = self.body(y * (1 - w) + self.token.expand(*y.shape[:2], -1) * w)
        y = self.back(y.transpose(1, 2).reshape(len(x), -1, 4, 4))
        mask = mask.repeat_interleave(4, 1).repeat_interleave(4, 2).unsqueeze(1).contiguous()
        return (F.l1_loss(x, y, reduction="none") * mask).sum() / (mask.sum() + 1e-5) / 3


class Quantised(nn.Module):
    """VQ-VAE: the nearest row of a table, and gradients that go straight through."""

    def __init__(self, width=6, rows=10):
        super().__init__()
        self.inner, self.outer = nn.Conv2d(3, width, 2, 2), nn.ConvTranspose2d(width, 3, 2, 2)
        self.table = nn.Embedding(rows, width)

    def forward(self, x):
        z = self.inner(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.shape[-1])
        apart = flat.pow(2).sum(1, keepdim=True) + self.table.weight.pow(2).sum(1) - 2 * flat @ self.table.weight.t()
        q = self.table(apart.argmin(1)).view(z.shape)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
        q = z + (q - z).detach()
        return F.mse_loss(self.outer(q.permute(0, 3, 1, 2)), x) + loss


class Frames(nn.Module):
    """A network of images of every frame, batch norms included; a recurrence over frames."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.over, self.head = nn.GRU(16, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, x, y):
        x = self.net(x.flatten(0, 1)).view(*x.shape[:2], -1)
        return F.cross_entropy(self.head(self.over(x)[0][:, -1]), y)


class Points(nn.Module):
    """PointNet as some write it: layers and batch norms of all points of all clouds."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(3, 16), nn.Linear(16, 24), nn.Linear(24, 5)
        self.first, self.second = nn.BatchNorm1d(16), nn.BatchNorm1d(24)

    def forward(self, x, y):
        n, p, _ = x.shape
        x = F.relu(self.first(self.a(x.reshape(n * p, 3))))
        x = F.relu(self.second(self.b(x)))
        return F.cross_entropy(self.head(x.view(n, p, -1).amax(1)), y)


class Standard(nn.Module):
    """NFNet's filters, which a batch norm of the filters makes; what is known of places goes through a convolution;
    attention to one key."""

    def __init__(self, width=8):
        super().__init__()
        self.weight, self.gain = nn.Parameter(torch.randn(width, 3, 3, 3)), nn.Parameter(torch.rand(width, 1, 1, 1))
        self.place, self.attend = nn.Conv2d(2, width, 1), nn.MultiheadAttention(width, 2, batch_first=True)
        self.head = nn.Linear(width, 5)

    def forward(self, x, y):
        w = F.batch_norm(self.weight.reshape(1, len(self.weight), -1), None, None, weight=(
            self.gain * 27 ** -0.5).view(-1), training=True, momentum=0.0, eps=1e-6).reshape_as(self.weight)
        x = F.conv2d(x, w, None, 2, 1)
        at = torch.stack(torch.meshgrid(torch.linspace(0, 1, x.shape[2]), torch.linspace(0, 1, x.shape[3]),
                                        indexing="ij"))[None].to(x)
        x = (x + self.place(at)).flatten(2).transpose(1, 2)
        x = x + self.attend(x, x.mean(1, keepdim=True), x.mean(1, keepdim=True))[0]
        return F.cross_entropy(self.head(x.mean(1)), y)


class Dice(nn.Module):
    """A U-Net, by dice of every image and cross entropy of pixels."""

    def __init__(self, c=6):
        super().__init__()
        self.down, self.deep = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, 2 * c, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(2 * c, c, 2, 2), nn.Conv2d(2 * c, 3, 1)

    def forward(self, x, target):
        a = F.relu(self.down(x))
        y = self.out(torch.cat([self.up(F.relu(self.deep(F.max_pool2d(a, 2)))), a], 1))
        p, t = y.softmax(1), F.one_hot(target, 3).permute(0, 3, 1, 2).float()
        dice = 1 - (2 * (p * t).sum((2, 3)) + 1) / (p.sum((2, 3)) + t.sum((2, 3)) + 1)
        return F.cross_entropy(y, target) + dice[:, 1:].mean()


class Rare(nn.Module):
    """Classes by how rare they are, of pixels; two tasks."""

    def __init__(self):
        super().__init__()
        self.net, self.tell = nn.Conv2d(3, 5, 3, padding=1), nn.Linear(5, 1)
        self.loss = nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 1.0, 0.5, 4.0]), ignore_index=255, label_smoothing=0.1)

    def forward(self, x, label, y):
        x = self.net(x)
        return self.loss(x, label) + 0.3 * F.mse_loss(self.tell(x.mean((2, 3))).squeeze(-1), y) + F.nll_loss(
            x.log_softmax(1), label, torch.arange(1, 6).to(x), ignore_index=255)


# ---- waves ----

class Mixing(nn.Module):
    """FNet: attention is the real part of a Fourier transform."""

    def __init__(self, width=16):
        super().__init__()
        self.table, self.norm, self.head = nn.Embedding(WORDS, width), nn.LayerNorm(width), nn.Linear(width, WORDS)

    def forward(self, x, y):
        x = self.table(x)
        x = self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)
        return F.cross_entropy(self.head(x).flatten(0, 1), y.flatten())


class Operator(nn.Module):
    """FNO in two dimensions: products of a few frequencies with what is learned."""

    def __init__(self, width=6, modes=3):
        super().__init__()
        self.lift, self.skip, self.down = nn.Conv2d(1, width, 1), nn.Conv2d(width, width, 1), nn.Conv2d(width, 1, 1)
        self.modes, self.weight = modes, nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)

    def forward(self, x, y):
        x = self.lift(x)
        z, m = torch.fft.rfft2(x), self.modes
        out = torch.zeros_like(z)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", z[:, :, :m, :m], torch.view_as_complex(self.weight))
        return F.mse_loss(self.down(F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.skip(x))), y)


class Filtered(nn.Module):
    """GFNet's filter of what is learned; loss on how strong frequencies are."""

    def __init__(self, width=4, long=8):
        super().__init__()
        self.weight, self.fc = nn.Parameter(torch.randn(long // 2 + 1, width, 2)), nn.Linear(width, width)

    def forward(self, x, y):
        x = torch.fft.rfft(self.fc(x), dim=1, norm="ortho") * torch.view_as_complex(self.weight)
        x = torch.fft.irfft(x, n=y.shape[1], dim=1, norm="ortho")
        return F.mse_loss(x, y) + 0.1 * F.l1_loss(torch.fft.rfft(x, dim=1).abs(), y[:, :5])


class Wave(nn.Module):
    """WaveNet: gates, gaps, skips."""

    def __init__(self, width=8):
        super().__init__()
        self.inner = nn.Conv1d(1, width, 1)
        self.filters, self.gates = (nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2 ** i) for i in range(3))
                                    for _ in range(2))
        self.skips, self.rest = (nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3)) for _ in range(2))
        self.outer = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 16, 1))

    def forward(self, x, y):
        x, total = self.inner(x), 0
        for f, g, s, r in zip(self.filters, self.gates, self.skips, self.rest):
            padded = F.pad(x, (f.dilation[0], 0))
            z = torch.tanh(f(padded)) * torch.sigmoid(g(padded))
            total, x = total + s(z), x + r(z)
        return F.cross_entropy(self.outer(total), y)


# ---- recommenders ----

class Factors(nn.Module):
    """DeepFM and DCN v2 of several fields."""

    def __init__(self, fields=4, rows=20, width=4):
        super().__init__()
        self.first, self.table = nn.Embedding(rows * fields, 1), nn.Embedding(rows * fields, width)
        self.register_buffer("offsets", torch.arange(fields) * rows)
        self.cross = nn.ModuleList(nn.Linear(fields * width, fields * width) for _ in range(2))
        self.deep = nn.Sequential(nn.Linear(fields * width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, y):
        x = x + self.offsets
        e = self.table(x)
        pairs = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
        flat = z = e.flatten(1)
        for layer in self.cross:
            z = flat * layer(z) + z
        logit = self.first(x).sum(1) + pairs + self.deep(z)
        return F.binary_cross_entropy_with_logits(logit.squeeze(1), y)


class Recommended(nn.Module):
    """SASRec: what comes next against what does not, where there is something."""

    def __init__(self, things=30, width=8, long=7):
        super().__init__()
        self.table, self.places = nn.Embedding(things, width, padding_idx=0), nn.Embedding(long, width)
        self.attend, self.norm = nn.MultiheadAttention(width, 2, batch_first=True), nn.LayerNorm(width)

    def forward(self, seen, wanted, other):
        x = self.table(seen) * 8 ** 0.5 + self.places(torch.arange(seen.shape[1]))
        x = x * (seen != 0).unsqueeze(-1)
        mask = ~torch.tril(torch.ones(seen.shape[1], seen.shape[1], dtype=torch.bool))
        x = self.norm(x + self.attend(x, x, x, attn_mask=mask, need_weights=False)[0])
        good, bad = (x * self.table(wanted)).sum(-1), (x * self.table(other)).sum(-1)
        here = torch.where(wanted != 0)
        return F.binary_cross_entropy_with_logits(good[here], torch.ones_like(good)[here]) + \
            F.binary_cross_entropy_with_logits(bad[here], torch.zeros_like(bad)[here])


class Pairwise(nn.Module):
    """BPR of a factorisation."""

    def __init__(self):
        super().__init__()
        self.users, self.things = nn.Embedding(20, 6), nn.Embedding(30, 6)

    def forward(self, user, good, bad):
        u = self.users(user)
        apart = (u * (self.things(good) - self.things(bad))).sum(-1)
        return -F.logsigmoid(apart).mean() + 1e-4 * u.pow(2).sum(1).mean()


# ---- agents, fields, densities ----

class Agent(nn.Module):
    """DQN: the value of what was done."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, state, action, reward, follows, ends):
        q = self.net(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            aim = reward + 0.9 * self.net(follows).max(1)[0] * (1 - ends)
        return F.smooth_l1_loss(q, aim)


class Policy(nn.Module):
    """PPO: ratios that are clipped, a value, an entropy."""

    def __init__(self):
        super().__init__()
        self.body, self.acts, self.tells = nn.Linear(6, 16), nn.Linear(16, 4), nn.Linear(16, 1)

    def forward(self, state, action, before, advantage, aim):
        x = torch.tanh(self.body(state))
        logp = self.acts(x).log_softmax(-1)
        ratio = (logp[torch.arange(len(x)), action] - before).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        return 0.5 * F.mse_loss(self.tells(x).squeeze(-1), aim) - gain + 0.01 * (logp.exp() * logp).sum(-1).mean()


class Field(nn.Module):
    """NeRF: places as sines, colours added up along rays."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3 + 3 * 2 * 4, 24), nn.ReLU(), nn.Linear(24, 4))

    def forward(self, places, steps, colour):
        waves = [f(places * 2.0 ** i) for i in range(4) for f in (torch.sin, torch.cos)]
        y = self.net(torch.cat([places, *waves], -1))
        alpha = 1 - torch.exp(-F.relu(y[..., 3]) * steps.abs())
        left = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        return F.mse_loss(((alpha * left)[..., None] * y[..., :3].sigmoid()).sum(1), colour)


class Mixed(nn.Module):
    """A mixture of normal densities, and a flow of coupled halves."""

    def __init__(self, of=3):
        super().__init__()
        self.net, self.of = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3 * of)), of
        self.scale = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

    def forward(self, x, y):
        s, t = self.scale(x[:, :2]).chunk(2, 1)
        z = torch.cat([x[:, :2], x[:, 2:] * torch.exp(torch.tanh(s)) + t], 1)
        flow = (0.5 * z.pow(2).sum(1) - torch.tanh(s).sum(1)).mean()
        p, mean, spread = self.net(z).split(self.of, 1)
        normal = torch.distributions.Normal(mean, F.softplus(spread) + 1e-3, validate_args=False)
        return flow - torch.logsumexp(p.log_softmax(-1) + normal.log_prob(y[:, None]), -1).mean()


class Solved(nn.Module):
    """A neural ODE by four steps of Runge-Kutta."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))

    def slope(self, t, x):
        return self.net(torch.cat([x, torch.full_like(x[:, :1], t)], 1))

    def forward(self, x, y):
        h = 0.25
        for i in range(4):
            a = self.slope(i * h, x)
            b = self.slope(i * h + h / 2, x + h / 2 * a)
            c = self.slope(i * h + h / 2, x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + self.slope(i * h + h, x + h * c))
        return F.mse_loss(x, y)


class Pairs(nn.Module):
    """CLIP: every image beside every text of the batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.t = nn.Linear(12, 8), nn.Linear(10, 8), nn.Parameter(torch.tensor(2.6))

    def forward(self, x, y):
        x, y = F.normalize(self.a(x), dim=-1), F.normalize(self.b(y), dim=-1)
        logits, i = self.t.exp() * x @ y.T, torch.arange(len(x))
        return (F.cross_entropy(logits, i) + F.cross_entropy(logits.T, i)) / 2


def lm(make, *more):
    return lambda: (make(), (ids(10), ids(10), *(m() for m in more)), {})


LANGUAGE = {
    "nanoGPT": lm(Nano), "checkpoints": lm(Checkpointed),
    "compiled": lambda: (Compiled(), (reals(8), ids(below=5)), {}),
    "labels gathered": lm(Gathered, lambda: torch.rand(BATCH, 10).round()),
    "DPO": lambda: (Preferred(), (ids(10), ids(10), ids(10), ids(10), reals()), {}),
    "mean without padding": lm(Padded),
    "means by masks": lm(Weighed, lambda: torch.rand(BATCH, 10).round(), lambda: torch.randint(1, 11, (BATCH,))),
    "places taken out": lm(Selected),
    "ALiBi, a prefix": lambda: (Alibi(), (ids(10), torch.randint(1, 11, (BATCH,)), ids(10)), {}),
    "experts, a loop": lm(Chosen), "experts, index_add": lm(Added), "experts, a mask": lm(Switched)}
OTHERS = {
    "SimMIM": lambda: (Masked(), (reals(3, 16, 16), torch.rand(BATCH, 4, 4) < 0.5), {}),
    "VQ-VAE": lambda: (Quantised(), (reals(3, 8, 8),), {}),
    "frames": lambda: (Frames(), (reals(3, 3, 16, 16), ids(below=5)), {}),
    "points": lambda: (Points(), (reals(9, 3), ids(below=5)), {}),
    "filters of a norm": lambda: (Standard(), (reals(3, 8, 8), ids(below=5)), {}),
    "U-Net, dice": lambda: (Dice(), (reals(1, 8, 8), ids(8, 8, below=3)), {}),
    "rare classes": lambda: (Rare(), (reals(3, 6, 6), ids(6, 6, below=5), reals()), {}),
    "FNet": lm(Mixing),
    "FNO": lambda: (Operator(), (reals(1, 8, 8), reals(1, 8, 8)), {}),
    "GFNet": lambda: (Filtered(), (reals(8, 4), reals(8, 4)), {}),
    "WaveNet": lambda: (Wave(), (reals(1, 16), ids(16, below=16)), {}),
    "DeepFM, DCN": lambda: (Factors(), (ids(4, below=20), torch.rand(BATCH).round()), {}),
    "SASRec": lambda: (Recommended(), (ids(7, below=30), ids(7, below=30), ids(7, below=30)), {}),
    "BPR": lambda: (Pairwise(), (ids(below=20), ids(below=30), ids(below=30)), {}),
    "DQN": lambda: (Agent(), (reals(6), ids(below=4), reals(), reals(6), torch.rand(BATCH).round()), {}),
    "PPO": lambda: (Policy(), (reals(6), ids(below=4), reals(), reals(), reals()), {}),
    "NeRF": lambda: (Field(), (reals(6, 3), reals(6), torch.rand(BATCH, 3)), {}),
    "densities": lambda: (Mixed(), (reals(4), reals()), {}),
    "neural ODE": lambda: (Solved(), (reals(2), reals(2)), {})}
OTHERS["CLIP of a batch"] = lambda: (Pairs(), (reals(12), reals(10)), {})
MODELS = {**LANGUAGE, **OTHERS}
