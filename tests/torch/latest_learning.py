# Ways to learn of 2025 and 2026 that the other lists lack, as people write them: insides of networks, texts that are
# searched, answers that are preferred, gradients by hand.  MODELS and REFUSED are as in latest_language.py.
# SPDX-License-Identifier: Apache-2.0
from pytorch import F, torch  # says SKIP and ends without PyTorch
from recent_modules import WORDS, lm, mlp
from today_modules import BATCH, ids, reals

nn = torch.nn


class Gates(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, threshold):
        ctx.save_for_backward(x, threshold)
        return (x > threshold).to(x)

    @staticmethod
    def backward(ctx, grad):
        x, threshold = ctx.saved_tensors
        near = ((x - threshold) / 0.5).abs() < 0.5
        return torch.zeros_like(x), (-(1.0 / 0.5) * near * grad).sum(0)


class Jump(nn.Module):
    """JumpReLU: a threshold whose gradient is a kernel's, by a function with its own backward."""

    def __init__(self, width=10, codes=24):
        super().__init__()
        self.enc, self.dec, self.log = nn.Linear(width, codes), nn.Linear(codes, width), nn.Parameter(
            torch.full((codes,), -1.5))

    def forward(self, x):
        pre = F.relu(self.enc(x))
        on = Gates.apply(pre, self.log.exp())
        return (self.dec(pre * on) - x).pow(2).sum(-1).mean() + 0.1 * on.sum(-1).mean()


class Insides(nn.Module):
    """Sparse autoencoders: the best k of a sample, of the batch's shape in nested sizes, dead features that explain
    what is left."""

    def __init__(self, width=10, codes=24, k=4):
        super().__init__()
        self.k, self.W_enc, self.W_dec = k, nn.Parameter(torch.randn(width, codes) * 0.3), nn.Parameter(
            torch.randn(codes, width) * 0.3)
        self.b_enc, self.b_dec = nn.Parameter(torch.zeros(codes)), nn.Parameter(torch.zeros(width))
        self.register_buffer("since", torch.arange(codes) * 10)

    def forward(self, x):
        pre = (x - self.b_dec) @ self.W_enc + self.b_enc
        acts = F.relu(pre)
        top = acts.topk(self.k, dim=-1, sorted=False)
        z = torch.zeros_like(acts).scatter_(-1, top.indices, top.values)
        losses = []
        for size in (6, 12, 24):
            y = z[:, :size] @ self.W_dec[:size] + self.b_dec
            losses.append((y.float() - x.float()).pow(2).mean())
        left = x - y.detach()
        dead = self.since > 100
        aux = torch.where(dead[None], acts, -torch.inf).topk(5, sorted=False)
        z2 = torch.zeros_like(acts).scatter_(-1, aux.indices, aux.values)
        y2 = z2 @ self.W_dec
        scale = (x - x.mean(0)).pow(2).sum(-1).mean()
        return torch.stack(losses).mean() + (y2 - left).pow(2).sum(-1).mean() / scale / 32


class Late(nn.Module):
    """ColBERT: every token of a query takes its best token of a document; the other documents of a batch are wrong."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.proj = nn.Embedding(WORDS, width, padding_idx=0), nn.Linear(width, 6, bias=False)

    def forward(self, query, document):
        q, d = (F.normalize(self.proj(self.embed(x)), p=2, dim=2) for x in (query, document))
        d = d * (document != 0).unsqueeze(-1).float()
        scores = torch.einsum("qih,djh->qdij", q, d).max(dim=-1).values.sum(dim=-1)
        return F.cross_entropy(scores / 0.5, torch.arange(len(q)))


class Lexical(nn.Module):
    """SPLADE: the largest of log(1 + relu) over a text's words; a squared mean of activity over the batch."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.ff, self.bias = nn.Embedding(WORDS, width), mlp(width, 24, width), nn.Parameter(
            torch.zeros(WORDS))

    def code(self, x):
        logits = F.linear(self.ff(self.embed(x)), self.embed.weight, self.bias)
        values, _ = torch.max(torch.log(1 + torch.relu(logits)) * (x != 0).unsqueeze(-1), dim=1)
        return values

    def forward(self, query, document):
        q, d = self.code(query), self.code(document)
        flops = sum(torch.sum(torch.mean(torch.abs(y), dim=0) ** 2) for y in (q, d))
        scores = q @ d.t()
        return F.cross_entropy(scores, torch.arange(scores.size(0))) + 1e-3 * flops


class Nested(nn.Module):
    """Matryoshka embeddings: the same loss of the first features, CoSENT's pairs of pairs."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.ff = nn.Embedding(WORDS, width, padding_idx=0), mlp(width, 24, width, act=nn.GELU)

    def text(self, x):
        mask = (x != 0).unsqueeze(-1).float()
        return torch.sum(self.ff(self.embed(x)) * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)

    def forward(self, first, second, score):
        a, b = self.text(first), self.text(second)
        loss = 0.0
        for size, weight in ((12, 1.0), (6, 0.5), (3, 0.25)):
            s = F.cosine_similarity(a[:, :size], b[:, :size]) * 20
            s = s[:, None] - s[None, :]
            lower = (score[:, None] < score[None, :]).float()
            s = s - (1 - lower) * 1e12
            s = torch.cat((torch.zeros(1), s.view(-1)), dim=0)
            loss = loss + weight * torch.logsumexp(s, dim=0)
        return loss


class Preferred(nn.Module):
    """ORPO and SimPO: two answers beside each other in one pass, means over answers, odds; labels of -100."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.gru, self.head = nn.Embedding(WORDS, width), nn.Linear(width, width), nn.Linear(width, WORDS)

    def logp(self, x, labels):
        h = self.embed(x)
        h = h + self.gru(h.cumsum(1) / torch.arange(1, x.shape[1] + 1)[None, :, None]).tanh()
        logits, labels = self.head(h)[:, :-1], labels[:, 1:].clone()
        mask = labels != -100
        labels[labels == -100] = 0
        per = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
        return (per * mask).sum(-1) / mask.sum(-1), F.cross_entropy(
            logits.flatten(0, 1), torch.where(mask, labels, -100).flatten(), ignore_index=-100)

    def forward(self, chosen, rejected):
        good, nll = self.logp(chosen, torch.where(torch.arange(chosen.shape[1]) < 2, -100, chosen))
        bad, _ = self.logp(rejected, torch.where(torch.arange(chosen.shape[1]) < 2, -100, rejected))
        odds = (good - bad) - (torch.log1p(-torch.exp(good)) - torch.log1p(-torch.exp(bad)))
        return nll - 0.1 * F.logsigmoid(odds).mean() - 0.1 * F.logsigmoid(2.0 * (good - bad) - 1.0).mean()


class Grouped(nn.Module):
    """GSPO, CISPO and DAPO: ratios of whole answers, clipped apart above and below, sums over tokens by all tokens."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)

    def forward(self, x, old, rewards, mask):
        n, group, t = x.shape
        logits = self.head(self.embed(x)) / 0.9
        logp = torch.gather(logits, -1, x.unsqueeze(-1)).squeeze(-1) - torch.logsumexp(logits, dim=-1)
        adv = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
        log_ratio = logp - old
        seq = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
        weight = logp - logp.detach() + seq.detach().unsqueeze(-1)
        c1, c2 = torch.exp(weight), torch.clamp(torch.exp(weight), 1 - 0.2, 1 + 0.28)
        gspo = -torch.min(c1 * adv.unsqueeze(-1), c2 * adv.unsqueeze(-1))
        cispo = -torch.clamp(torch.exp(log_ratio), max=1.28).detach() * adv.unsqueeze(-1) * logp
        p = F.softmax(logits, dim=-1)
        entropy = torch.logsumexp(logits, dim=-1) - torch.sum(p * logits, dim=-1)
        kl = torch.exp(old - logp) - (old - logp) - 1
        loss = ((gspo + cispo + 0.04 * kl - 0.01 * entropy) * mask).sum() / mask.sum().clamp(min=1.0)
        return loss


class Reversed(nn.Module):
    """Domain-adversarial: features whose gradient is turned round, and scaled, in the middle."""

    def __init__(self, width=8):
        super().__init__()
        self.features, self.classes, self.domain = mlp(6, 16, width), nn.Linear(width, 4), mlp(width, 8, 1)

    def forward(self, x, y, domain):
        f = self.features(x)
        loss = F.cross_entropy(self.classes(f), y)
        return loss + F.binary_cross_entropy_with_logits(self.domain(Turn.apply(f, 0.3)).squeeze(1), domain)


class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.scale * grad, None


MODELS = {
    "sparse autoencoder": lambda: (Insides(), reals(10), {}),
    "SPLADE": lambda: (Lexical(), (ids(5, below=WORDS), ids(7, below=WORDS)), {}),
    "GSPO, CISPO": lambda: (Grouped(), (ids(3, 6, below=WORDS), -torch.rand(BATCH, 3, 6) - 3, torch.randn(BATCH, 3), (
        torch.rand(BATCH, 3, 6) < 0.8).float()), {"own": True}),
    "gradients turned round": lambda: (Reversed(), (reals(6), ids(below=4), torch.rand(BATCH)), {})}
REFUSED = {
    "JumpReLU": lambda: (Jump(), reals(10), {}),
    "ColBERT": lambda: (Late(), (ids(5, below=WORDS), ids(7, below=WORDS)), {}),
    "Matryoshka, CoSENT": lambda: (Nested(), (ids(5, below=WORDS), ids(7, below=WORDS), torch.rand(BATCH)), {}),
    "ORPO, SimPO": lm(Preferred)}
