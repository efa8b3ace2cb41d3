# Models of 2025 and 2026 that the other lists lack, as people write them: pictures, sound, molecules, weather, agents.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import copy
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from recent_modules import mlp
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- sound and language ----

class Listener(nn.Module):
    """Whisper as OpenAI wrote it: convolutions, sines, attention scaled on both sides, a head of the words' rows."""

    def __init__(self, mels=6, width=16, heads=2, words=30, audio=8, text=10):
        super().__init__()
        self.heads, self.conv1 = heads, nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        inc = math.log(10000) / (width // 2 - 1)
        scaled = torch.arange(audio)[:, None] * torch.exp(-inc * torch.arange(width // 2))[None]
        self.register_buffer("positional_embedding", torch.cat([torch.sin(scaled), torch.cos(scaled)], dim=1))
        self.token, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(text, width) * 0.1)
        self.attn = nn.ModuleList(nn.ModuleDict({"q": nn.Linear(width, width), "k": nn.Linear(width, width, bias=False),
                                                 "v": nn.Linear(width, width), "o": nn.Linear(width, width)})
                                  for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(7))
        self.mlps = nn.ModuleList(mlp(width, 4 * width, width, act=nn.GELU) for _ in range(2))
        self.register_buffer("mask", torch.empty(text, text).fill_(-torch.inf).triu_(1), persistent=False)

    def attend(self, i, x, xa=None, mask=None):
        a, xa = self.attn[i], x if xa is None else xa
        n, t, c = x.shape
        scale = (c // self.heads) ** -0.25
        q = a["q"](x).view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3) * scale
        k = a["k"](xa).view(*xa.shape[:2], self.heads, -1).permute(0, 2, 3, 1) * scale
        v = a["v"](xa).view(*xa.shape[:2], self.heads, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[:t, :t]
        w = F.softmax(qk.float(), dim=-1).to(q.dtype)
        return a["o"]((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))

    def forward(self, mel, tokens, labels):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = (x + self.positional_embedding).to(x.dtype)
        x = x + self.attend(0, self.norms[0](x))
        xa = self.norms[2](x + self.mlps[0](self.norms[1](x)))
        x = self.token(tokens) + self.places[:tokens.shape[-1]]
        x = x + self.attend(1, self.norms[3](x), mask=self.mask)
        x = x + self.attend(2, self.norms[4](x), xa)
        x = self.norms[6](x + self.mlps[1](self.norms[5](x)))
        logits = (x @ torch.transpose(self.token.weight.to(x.dtype), 0, 1)).float()
        return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100)


# ---- pictures ----

class Selfless(nn.Module):
    """DINOv2: a class token's and hidden patches' shares, centred by Sinkhorn and Knopp over the batch; registers; the
    teacher follows; features spread by their nearest neighbours (KoLeo)."""

    def __init__(self, width=12, prototypes=8):
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(1, 1, width))
        self.registers, self.mask = nn.Parameter(torch.randn(1, 2, width)), nn.Parameter(torch.zeros(1, width))
        self.place, self.block = nn.Parameter(torch.randn(1, 5, width) * 0.1), nn.TransformerEncoderLayer(
            width, 2, 24, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.ls, self.head = nn.Parameter(1e-1 * torch.ones(width)), mlp(width, 16, prototypes, act=nn.GELU)
        self.teacher = copy.deepcopy(nn.ModuleList([self.patch, self.block, self.head])).requires_grad_(False)

    def features(self, patch, block, x, masks=None):
        x = patch(x).flatten(2).transpose(1, 2)
        if masks is not None:
            x = torch.where(masks.unsqueeze(-1), self.mask.to(x.dtype).unsqueeze(0), x)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.place
        x = torch.cat((x[:, :1], self.registers.expand(x.shape[0], -1, -1), x[:, 1:]), dim=1)
        x = x + self.ls * block(x)
        return x[:, 0], x[:, 3:]

    @torch.no_grad()
    def even(self, logits):
        q = torch.exp(logits.float() / 0.5).t()
        k, b = q.shape
        q = q / torch.sum(q)
        for _ in range(3):
            q = q / torch.sum(q, dim=1, keepdim=True) / k
            q = q / torch.sum(q, dim=0, keepdim=True) / b
        return (q * b).t()

    def forward(self, a, b, masks):
        cls, patches = self.features(self.patch, self.block, a, masks)
        with torch.no_grad():
            tcls, tpatches = self.features(self.teacher[0], self.teacher[1], b)
            target, tshare = self.even(self.teacher[2](tcls)), F.softmax(self.teacher[2](tpatches) / 0.5, dim=-1)
        dino = -torch.sum(target * F.log_softmax(self.head(cls) / 0.1, dim=-1), dim=-1).mean()
        ibot = torch.sum(tshare * F.log_softmax(self.head(patches) / 0.1, dim=-1), dim=-1)
        ibot = torch.sum(ibot * masks.float(), dim=-1) / masks.sum(dim=-1).clamp(min=1.0)
        x = F.normalize(cls, eps=1e-8, p=2, dim=-1)
        dots = torch.mm(x, x.t()) - 2 * torch.eye(len(x))
        nearest = dots.max(dim=1).values
        koleo = -torch.log((2 - 2 * nearest).clamp(min=1e-6).sqrt() + 1e-8).mean()
        return dino - ibot.mean() + 0.1 * koleo


class Sigmoids(nn.Module):
    """SigLIP 2: a probe that pools the patches, all pairs by sigmoids, a caption that is told beside."""

    def __init__(self, width=16, words=30):
        super().__init__()
        self.patch, self.place = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(1, 4, width) * 0.02)
        self.body = nn.TransformerEncoderLayer(width, 2, 32, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.probe, self.pool = nn.Parameter(torch.randn(1, 1, width)), nn.MultiheadAttention(width, 2,
                batch_first=True)
        self.norm, self.mlp = nn.LayerNorm(width), mlp(width, 32, width, act=nn.GELU)
        self.words, self.text = nn.Embedding(words, width), nn.TransformerEncoderLayer(
            width, 2, 32, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(width, 2, 32, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.logit_scale, self.logit_bias = nn.Parameter(torch.tensor(math.log(10))), nn.Parameter(torch.tensor(-10.0))
        self.lm = nn.Linear(width, words)

    def forward(self, images, texts):
        x = self.body(self.patch(images).flatten(2).transpose(1, 2) + self.place)
        y = self.pool(self.probe.repeat(x.shape[0], 1, 1), x, x)[0]
        y = (y + self.mlp(self.norm(y)))[:, 0]
        rows = self.words(texts)
        a, b = F.normalize(y, dim=-1), F.normalize(self.text(rows)[:, -1], dim=-1)
        logits = a @ b.t() * self.logit_scale.exp() + self.logit_bias
        labels = 2 * torch.eye(logits.shape[0]) - torch.ones_like(logits)
        told = self.lm(self.decoder(rows[:, :-1], x, nn.Transformer.generate_square_subsequent_mask(rows.shape[1] - 1)))
        return -F.logsigmoid(labels * logits).sum() / len(images) + F.cross_entropy(
            told.transpose(1, 2), texts[:, 1:])


class Masks(nn.Module):
    """SAM 2's decoder: tokens and the picture attend to each other, filters of each mask by networks, the picture made
    larger, frames that are remembered with rotary places; focal and dice losses, and a score of the overlap."""

    def __init__(self, width=16, heads=2, masks=3, side=4):
        super().__init__()
        self.heads, self.side, self.count = heads, side, masks
        self.tokens, self.gauss = nn.Embedding(masks + 2, width), nn.Parameter(torch.randn(2, width // 2), False)
        self.points, self.memory = nn.Embedding(2, width), nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.attn = nn.ModuleList(nn.ModuleList(nn.Linear(*s) for s in ((width, 8), (width, 8), (width, 8), (8, width)))
                                  for _ in range(5))
        self.norms, self.mlp = nn.ModuleList(nn.LayerNorm(width) for _ in range(6)), mlp(width, 32, width)
        self.up = nn.Sequential(nn.ConvTranspose2d(width, 8, 2, 2), nn.GroupNorm(1, 8), nn.GELU(), nn.ConvTranspose2d(
            8, 4, 2, 2), nn.GELU())
        self.hyper = nn.ModuleList(mlp(width, width, 4) for _ in range(masks))
        self.iou, self.object = nn.Sequential(mlp(width, width, masks), nn.Sigmoid()), nn.Linear(width, 1)
        inv = 1.0 / 10 ** (torch.arange(0, 4, 4).float() / 4)
        at = torch.arange(side * side)
        freqs = torch.cat([torch.outer((at % side).float(), inv), torch.outer((at // side).float(), inv)], -1)
        self.register_buffer("freqs", torch.polar(torch.ones_like(freqs), freqs), persistent=False)

    def attend(self, i, q, k, v, places=False):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, x in zip(self.attn[i], (q, k, v)))
        if places:
            q, k = (torch.view_as_real(torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * self.freqs)
                    .flatten(3).type_as(x) for x in (q, k))
        return self.attn[i][3](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def placed(self, at):
        at = 2 * math.pi * ((2 * at - 1) @ self.gauss)
        return torch.cat([torch.sin(at), torch.cos(at)], dim=-1)

    def forward(self, image, before, points, labels, truth):
        n, c, h, w = image.shape
        grid = torch.ones(h, w)
        grid = torch.stack([grid.cumsum(1) - 0.5, grid.cumsum(0) - 0.5], -1) / self.side
        pe = self.placed(grid).flatten(0, 1).unsqueeze(0).expand(n, -1, -1)
        src = image.flatten(2).permute(0, 2, 1)
        past = before.flatten(2).permute(0, 2, 1)
        src = src + self.attend(0, self.norms[0](src), past + self.memory, past, True)
        sparse = self.placed(points)
        sparse = sparse + torch.where((labels == 1)[..., None], self.points.weight[1], self.points.weight[0])
        start = torch.cat([self.tokens.weight.unsqueeze(0).expand(n, -1, -1), sparse], dim=1)
        q = self.norms[1](self.attend(1, start, start, start))
        q = self.norms[2](q + self.attend(2, q + start, src + pe, src))
        q = self.norms[3](q + self.mlp(q))
        src = self.norms[4](src + self.attend(3, src + pe, q + start, q))
        q = self.norms[5](q + self.attend(4, q + start, src + pe, src))
        up = self.up(src.transpose(1, 2).view(n, c, h, w))
        hyper = torch.stack([f(q[:, 2 + i]) for i, f in enumerate(self.hyper)], dim=1)
        b, ch, hh, ww = up.shape
        masks = (hyper @ up.view(b, ch, hh * ww)).view(b, -1, hh, ww)
        target = truth.unsqueeze(1).expand_as(masks)
        prob = masks.sigmoid()
        ce = F.binary_cross_entropy_with_logits(masks, target, reduction="none")
        p_t = prob * target + (1 - prob) * (1 - target)
        focal = ((0.25 * target + 0.75 * (1 - target)) * ce * (1 - p_t) ** 2).flatten(2).mean(-1)
        p, t = prob.flatten(2), target.flatten(2)
        dice = 1 - (2 * (p * t).sum(-1) + 1) / (p.sum(-1) + t.sum(-1) + 1)
        with torch.no_grad():
            pb, tb = p > 0.5, t > 0.5
            actual = (pb & tb).sum(-1).float() / (pb | tb).sum(-1).float().clamp(min=1.0)
        iou = F.l1_loss(self.iou(q[:, 1]), actual, reduction="none")
        combined = focal * 20 + dice
        best = torch.argmin(combined, dim=-1)
        chosen = combined.gather(1, best.unsqueeze(1)).squeeze(1)
        return chosen.mean() + iou.mean() + F.softplus(-self.object(q[:, 0])).mean()


def conv(a, b, k=3, s=1, g=1):
    return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(b), nn.SiLU())


class Detector(nn.Module):
    """YOLO11: C3k2, pools in a row, attention of positions, two heads whose boxes are expectations over bins; the
    anchors' targets are inputs; CIoU."""

    def __init__(self, width=8, classes=3, bins=4):
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem, self.c1, self.c2 = conv(3, width, 3, 2), conv(width, 2 * width, 1), conv(3 * width, 2 * width, 1)
        self.inner = nn.Sequential(conv(width, width // 2), conv(width // 2, width))
        self.down, self.sppf1, self.sppf2 = conv(2 * width, 2 * width, 3, 2), conv(2 * width, width, 1), conv(
            4 * width, 2 * width, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.qkv, self.pe = nn.Conv2d(width, 2 * width, 1), conv(width, width, 3, g=width)
        self.proj, self.lateral = conv(width, width, 1), conv(4 * width, 2 * width, 1)
        self.box, self.cls = (nn.ModuleList(nn.Sequential(conv(2 * width, width), nn.Conv2d(width, out, 1))
                                            for _ in range(2)) for out in (4 * bins, classes))
        self.dfl = nn.Conv2d(bins, 1, 1, bias=False).requires_grad_(False)
        self.dfl.weight.data[:] = torch.arange(bins, dtype=torch.float).view(1, bins, 1, 1)

    def psa(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(x).view(b, 2, c, h * w).split([c // 4, c // 4, c // 2], dim=2)
        attn = (q.transpose(-2, -1) @ k * (c // 4) ** -0.5).softmax(dim=-1)
        y = (v @ attn.transpose(-2, -1)).view(b, c, h, w) + self.pe(v.reshape(b, c, h, w))
        return x + self.proj(y)

    def forward(self, image, boxes, scores):
        x = list(self.c1(self.stem(image)).chunk(2, 1))
        x.append(x[-1] + self.inner(x[-1]))
        fine = self.c2(torch.cat(x, 1))
        y = [self.sppf1(self.down(fine))]
        y.extend(self.pool(y[-1]) for _ in range(3))
        a, b = self.sppf2(torch.cat(y, 1)).chunk(2, 1)
        coarse = torch.cat((a, self.psa(b)), 1)
        fine = self.lateral(torch.cat([F.interpolate(coarse, scale_factor=2, mode="nearest"), fine], 1))
        feats = [torch.cat((box(z), cls(z)), 1) for z, box, cls in zip((fine, coarse), self.box, self.cls)]
        points, strides = [], []
        for f, s in zip(feats, (2, 4)):
            h, w = f.shape[-2:]
            sy, sx = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            points.append(torch.stack((sx, sy), -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), float(s)))
        points, strides = torch.cat(points), torch.cat(strides)
        whole = torch.cat([f.view(len(image), 4 * self.bins + self.classes, -1) for f in feats], 2)
        box, cls = whole.split((4 * self.bins, self.classes), 1)
        n, _, a = box.shape
        box = self.dfl(box.view(n, 4, self.bins, a).transpose(2, 1).softmax(1)).view(n, 4, a).permute(0, 2, 1)
        lt, rb = box.chunk(2, 2)
        pred = torch.cat((points - lt, points + rb), -1) * strides
        x1, y1, x2, y2 = pred.chunk(4, -1)
        u1, v1, u2, v2 = boxes.chunk(4, -1)
        inter = (x2.minimum(u2) - x1.maximum(u1)).clamp_(0) * (y2.minimum(v2) - y1.maximum(v1)).clamp_(0)
        w1, h1, w2, h2 = x2 - x1, y2 - y1 + 1e-7, u2 - u1, v2 - v1 + 1e-7
        iou = inter / (w1 * h1 + w2 * h2 - inter + 1e-7)
        cw, ch = x2.maximum(u2) - x1.minimum(u1), y2.maximum(v2) - y1.minimum(v1)
        rho2 = ((u1 + u2 - x1 - x2).pow(2) + (v1 + v2 - y1 - y2).pow(2)) / 4
        v = (4 / math.pi ** 2) * ((w2 / h2).atan() - (w1 / h1).atan()).pow(2)
        with torch.no_grad():
            alpha = v / (v - iou + (1 + 1e-7))
        iou = iou - (rho2 / (cw.pow(2) + ch.pow(2) + 1e-7) + v * alpha)
        total = scores.sum().clamp(min=1)
        weight = scores.sum(-1, keepdim=True)
        loss_cls = F.binary_cross_entropy_with_logits(cls.permute(0, 2, 1), scores, reduction="none").sum() / total
        return 7.5 * ((1.0 - iou) * weight).sum() / total + 0.5 * loss_cls


class Fused(nn.Module):
    """EfficientNetV2: fused blocks, then depthwise ones that are squeezed."""

    def __init__(self, width=8):
        super().__init__()
        self.stem, self.fused = conv(3, width, 3, 2), nn.Sequential(conv(width, 4 * width), nn.Conv2d(
            4 * width, width, 1, bias=False), nn.BatchNorm2d(width, eps=1e-3))
        self.expand, self.depth = conv(width, 4 * width, 1), conv(4 * width, 4 * width, 3, 2, 4 * width)
        self.se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4 * width, 2, 1), nn.SiLU(), nn.Conv2d(
            2, 4 * width, 1), nn.Sigmoid())
        self.project, self.head = nn.Sequential(nn.Conv2d(4 * width, 2 * width, 1, bias=False), nn.BatchNorm2d(
            2 * width)), nn.Sequential(conv(2 * width, 32, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))

    def forward(self, x, labels):
        x = self.stem(x)
        x = x + self.fused(x)
        x = self.depth(self.expand(x))
        x = self.project(x * self.se(x))
        return F.cross_entropy(self.head(x), labels, label_smoothing=0.1)


class Universal(nn.Module):
    """MobileNetV4: inverted bottlenecks with a depthwise convolution before or between, and mobile attention of one
    head of keys from fewer places."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads, self.stem, size = heads, conv(3, width, 3, 2), width // 2

        def plain(a, b, k, s=1, g=1):
            return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(b))
        self.extra = nn.Sequential(plain(width, width, 3, g=width), plain(width, 32, 1), nn.ReLU(), plain(32, 32, 5,
                g=32),
                                   nn.ReLU(), plain(32, width, 1))
        self.norm, self.q, self.o = nn.BatchNorm2d(width), nn.Conv2d(width, heads * size, 1, bias=False), nn.Conv2d(
            heads * size, width, 1, bias=False)
        self.k, self.v = (nn.Sequential(plain(width, width, 3, 2, width), nn.Conv2d(width, size, 1, bias=False))
                          for _ in range(2))
        self.scale, self.head = nn.Parameter(torch.full((width,), 1e-1)), nn.Linear(width, 5)

    def forward(self, x, labels):
        x = self.stem(x)
        x = x + self.extra(x)
        y = self.norm(x)
        b, _, h, w = y.shape
        q = self.q(y).reshape(b, self.heads, -1, h * w).transpose(-1, -2)
        k, v = (f(y).flatten(2).unsqueeze(2).permute(0, 2, 3, 1) for f in (self.k, self.v))
        y = F.scaled_dot_product_attention(q, k.expand(-1, self.heads, -1, -1), v.expand(-1, self.heads, -1, -1))
        y = self.o(y.transpose(1, 2).reshape(b, h, w, -1).permute(0, 3, 1, 2).contiguous())
        x = x + y * self.scale.view(-1, 1, 1)
        return F.cross_entropy(self.head(x.mean([2, 3])), labels)


class Crossed(nn.Module):
    """VMamba: four ways through a picture by a selective scan, merged; depthwise convolution and gates."""

    def __init__(self, width=6, state=2, rank=1):
        super().__init__()
        inner = 2 * width
        self.state, self.rank = state, rank
        self.patch, self.norm, self.into = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width), nn.Linear(width, 2 * inner)
        self.conv, self.out_norm = nn.Conv2d(inner, inner, 3, padding=1, groups=inner), nn.LayerNorm(inner)
        self.x_proj = nn.Parameter(torch.randn(4, rank + 2 * state, inner) * 0.3)
        self.dt, self.dt_bias = nn.Parameter(torch.randn(4, inner, rank)), nn.Parameter(torch.randn(4, inner) * 0.1)
        self.a_logs = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(4 * inner, 1))
        self.d, self.out, self.head = nn.Parameter(torch.ones(4 * inner)), nn.Linear(inner, width), nn.Linear(width, 5)

    def scan(self, x):
        b, c, h, w = x.shape
        length = h * w
        both = torch.stack([x.flatten(2), x.transpose(2, 3).contiguous().flatten(2)], dim=1)
        xs = torch.cat([both, torch.flip(both, dims=[-1])], dim=1)
        dbl = torch.einsum("bkdl,kcd->bkcl", xs, self.x_proj)
        dts, bs, cs = torch.split(dbl, [self.rank, self.state, self.state], dim=2)
        dts = F.softplus(torch.einsum("bkrl,kdr->bkdl", dts, self.dt) + self.dt_bias[None, :, :, None])
        a = -torch.exp(self.a_logs).view(4, c, self.state)
        h_, ys = x.new_zeros(b, 4, c, self.state), []
        for i in range(length):
            dt = dts[..., i, None]
            h_ = torch.exp(dt * a) * h_ + dt * bs[:, :, None, :, i] * xs[..., i, None]
            ys.append((h_ * cs[:, :, None, :, i]).sum(-1))
        y = torch.stack(ys, -1) + self.d.view(4, c)[None, :, :, None] * xs
        y = y[:, :2] + y[:, 2:].flip(dims=[-1])
        return y[:, 0] + y[:, 1].view(b, c, w, h).transpose(2, 3).contiguous().flatten(2)

    def forward(self, x, labels):
        x = self.patch(x).permute(0, 2, 3, 1)
        y, z = self.into(self.norm(x)).chunk(2, dim=-1)
        y = F.silu(self.conv(y.permute(0, 3, 1, 2).contiguous()))
        y = self.out_norm(self.scan(y).transpose(1, 2).view(*z.shape)) * F.silu(z)
        x = x + self.out(y)
        return F.cross_entropy(self.head(x.mean((1, 2))), labels)


# ---- pictures that are made ----

class Large(nn.Module):
    """SDXL's blocks: steps, sizes and a pooled text are added, residual blocks, several transformers that see the
    text; noise by its signal, velocity."""

    def __init__(self, width=8, heads=2, text=6):
        super().__init__()
        self.heads, self.width, t = heads, width, 4 * width
        self.time, self.add = mlp(width, t, t, act=nn.SiLU), mlp(6 * width + text, t, t, act=nn.SiLU)
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.in1, self.in2, self.skip = (nn.ModuleList([nn.GroupNorm(4, width), nn.GroupNorm(4, width)]), nn.ModuleList(
            [nn.Conv2d(width, width, 3, padding=1) for _ in range(2)]), nn.Linear(t, width))
        self.norm, self.into, self.out = nn.GroupNorm(4, width, eps=1e-6), nn.Linear(width, width), nn.Linear(width,
                width)
        self.q, self.o = (nn.ModuleList(nn.Linear(width, width, bias=bool(i)) for _ in range(4)) for i in range(2))
        self.kv = nn.ModuleList(nn.Linear(width if i % 2 == 0 else text, 2 * width, bias=False) for i in range(4))
        self.lns = nn.ModuleList(nn.LayerNorm(width) for _ in range(6))
        self.ff = nn.ModuleList(nn.ModuleList([nn.Linear(width, 8 * width), nn.Linear(4 * width, width)])
                                for _ in range(2))
        self.down, self.up = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(2 * width, width, 3, padding=1)
        self.last = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))
        self.register_buffer("alphas", torch.cumprod(1 - torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, 50) ** 2, 0))

    def sines(self, x):
        half = self.width // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        x = x[..., None].float() * freqs
        return torch.cat([torch.cos(x), torch.sin(x)], dim=-1)

    def attend(self, i, x, y):
        q, (k, v) = self.q[i](x), self.kv[i](y).chunk(2, -1)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        return self.o[i](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def res(self, x, emb):
        y = self.in2[0](F.silu(self.in1[0](x)))
        y = y + self.skip(F.silu(emb))[:, :, None, None]
        return x + self.in2[1](F.silu(self.in1[1](y)))

    def blocks(self, x, text):
        b, c, h, w = x.shape
        y = self.into(self.norm(x).permute(0, 2, 3, 1).reshape(b, h * w, c))
        for i in range(2):
            z = self.lns[3 * i](y)
            y = y + self.attend(2 * i, z, z)
            y = y + self.attend(2 * i + 1, self.lns[3 * i + 1](y), text)
            a, gate = self.ff[i][0](self.lns[3 * i + 2](y)).chunk(2, dim=-1)
            y = y + self.ff[i][1](a * F.gelu(gate))
        return self.out(y).reshape(b, h, w, c).permute(0, 3, 1, 2).contiguous() + x

    def forward(self, latents, noise, steps, text, pooled, sizes):
        signal = self.alphas[steps].view(-1, 1, 1, 1)
        x = signal.sqrt() * latents + (1 - signal).sqrt() * noise
        target = signal.sqrt() * noise - (1 - signal).sqrt() * latents
        emb = self.time(self.sines(steps)) + self.add(torch.cat([pooled, self.sines(sizes.flatten()).reshape(
            len(pooled), -1)], dim=-1))
        x = skip = self.res(self.first(x), emb)
        x = self.blocks(self.down(x), text)
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        x = self.res(self.up(torch.cat([x, skip], dim=1)), emb)
        loss = F.mse_loss(self.last(x).float(), target.float(), reduction="none").mean(dim=[1, 2, 3])
        snr = self.alphas[steps] / (1 - self.alphas[steps])
        weight = torch.stack([snr, 5.0 * torch.ones_like(steps)], dim=1).min(dim=1)[0] / (snr + 1)
        return (loss * weight).mean()


class Flow(nn.Module):
    """Flux: two streams that attend together, then one; places of three axes that turn; guidance; a shifted time."""

    def __init__(self, channels=4, width=16, heads=2, text=6, axes=(2, 2, 4)):
        super().__init__()
        self.heads, self.axes, self.width = heads, axes, width
        self.img_in, self.txt_in = nn.Linear(channels, width), nn.Linear(text, width)
        self.time, self.guide, self.vector = (mlp(s, width, width, act=nn.SiLU) for s in (8, 8, 5))
        self.mods = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(2))
        self.qkv, self.o = (nn.ModuleList(nn.Linear(width, (3 - 2 * i) * width) for _ in range(2)) for i in range(2))
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(width // heads)) for _ in range(6))
        self.mlps = nn.ModuleList(mlp(width, 32, width, act=lambda: nn.GELU(approximate="tanh")) for _ in range(2))
        self.single_mod, self.lin1, self.lin2 = nn.Linear(width, 3 * width), nn.Linear(width,
                3 * width + 32), nn.Linear(
            width + 32, width)
        self.final_mod, self.final = nn.Linear(width, 2 * width), nn.Linear(width, channels)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)

    @staticmethod
    def rope(pos, dim, theta=10000):
        scale = torch.arange(0, dim, 2, dtype=torch.float64) / dim
        out = torch.einsum("...n,d->...nd", pos, 1.0 / theta ** scale)
        out = torch.stack([torch.cos(out), -torch.sin(out), torch.sin(out), torch.cos(out)], dim=-1)
        return out.unflatten(-1, (2, 2)).float()

    @staticmethod
    def apply(x, freqs):
        y = x.float().reshape(*x.shape[:-1], -1, 1, 2)
        return (freqs[..., 0] * y[..., 0] + freqs[..., 1] * y[..., 1]).reshape(*x.shape).type_as(x)

    def rms(self, i, x):
        rrms = torch.rsqrt(torch.mean(x.float() ** 2, dim=-1, keepdim=True) + 1e-6)
        return (x * rrms) * self.scales[i]

    def heads_of(self, x, i):
        q, k, v = x.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.rms(i, q), self.rms(i + 1, k), v

    def attention(self, q, k, v, pe):
        y = F.scaled_dot_product_attention(self.apply(q, pe), self.apply(k, pe), v)
        return y.transpose(1, 2).flatten(2)

    def sines(self, t):
        freqs = torch.exp(-math.log(10000) * torch.arange(4).float() / 4)
        args = (1000 * t)[:, None] * freqs[None]
        return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

    def forward(self, latents, noise, normal, txt, vec, guidance):
        t = torch.sigmoid(normal)
        t = 3.0 * t / (1 + 2.0 * t)
        x = (1 - t[:, None, None, None]) * latents + t[:, None, None, None] * noise
        b, c, h, w = x.shape
        img_ids = torch.zeros(h, w, 3)
        img_ids[..., 1] = img_ids[..., 1] + torch.arange(h)[:, None]
        img_ids[..., 2] = img_ids[..., 2] + torch.arange(w)[None, :]
        at = torch.cat([torch.zeros(txt.shape[1], 3), img_ids.view(-1, 3)])[None]
        pe = torch.cat([self.rope(at[..., i], self.axes[i]) for i in range(3)], dim=-3).unsqueeze(1)
        img, txt = self.img_in(x.flatten(2).transpose(1, 2)), self.txt_in(txt)
        vec = F.silu(self.time(self.sines(t)) + self.guide(self.sines(guidance)) + self.vector(vec))
        streams, parts, mods = [txt, img], [], []
        for i in range(2):
            mods.append(self.mods[i](vec)[:, None, :].chunk(6, dim=-1))
            parts.append(self.heads_of(self.qkv[i]((1 + mods[i][1]) * self.norm(streams[i]) + mods[i][0]), 2 * i))
        y = self.attention(*(torch.cat(p, dim=2) for p in zip(*parts)), pe)
        y = y[:, :txt.shape[1]], y[:, txt.shape[1]:]
        for i in range(2):
            z = streams[i] + mods[i][2] * self.o[i](y[i])
            streams[i] = z + mods[i][5] * self.mlps[i]((1 + mods[i][4]) * self.norm(z) + mods[i][3])
        x = torch.cat(streams, 1)
        shift, scale, gate = self.single_mod(vec)[:, None].chunk(3, dim=-1)
        qkv, hidden = torch.split(self.lin1((1 + scale) * self.norm(x) + shift), [3 * self.width, 32], dim=-1)
        y = self.attention(*self.heads_of(qkv, 4), pe)
        x = x + gate * self.lin2(torch.cat((y, F.gelu(hidden, approximate="tanh")), 2))
        shift, scale = self.final_mod(vec).chunk(2, dim=1)
        x = self.final((1 + scale[:, None]) * self.norm(x[:, txt.shape[1]:, ...]) + shift[:, None])
        return F.mse_loss(x.transpose(1, 2).reshape(b, c, h, w), noise - latents)


MODELS = {
    "Whisper, by hand": lambda: (Listener(), (reals(6, 16), ids(6, below=30), ids(6, below=30)), {}),
    "DINOv2": lambda: (Selfless(), (reals(3, 8, 8), reals(3, 8, 8), torch.rand(BATCH, 4) < 0.5), {}),
    "SigLIP 2": lambda: (Sigmoids(), (reals(3, 8, 8), ids(6, below=30)), {}),
    "SAM 2": lambda: (Masks(), (reals(16, 4, 4), reals(16, 4, 4), torch.rand(BATCH, 2, 2), ids(2, below=2), torch.rand(
        BATCH, 16, 16).round()), {}),
    "YOLO11": lambda: (Detector(), (reals(3, 16, 16), torch.tensor([1.0, 2.0, 9.0, 11.0]) + torch.rand(
        BATCH, 80, 4), torch.rand(BATCH, 80, 3)), {}),
    "EfficientNetV2, by hand": lambda: (Fused(), (reals(3, 16, 16), ids(below=5)), {}),
    "MobileNetV4": lambda: (Universal(), (reals(3, 16, 16), ids(below=5)), {}),
    "VMamba": lambda: (Crossed(), (reals(3, 12, 12), ids(below=5)), {}),
    "SDXL": lambda: (Large(), (reals(4, 8, 8), reals(4, 8, 8), ids(below=50), reals(3, 6), reals(6), torch.rand(
        BATCH, 6) * 9), {}),
    "Flux, by hand": lambda: (Flow(), (reals(4, 3, 3), reals(4, 3, 3), reals(), reals(3, 6), reals(5), torch.rand(
        BATCH) * 4), {})}
