# Models that the other lists lack, as people write them: pictures, what is made of noise, what views have in common.
# Each of MODELS makes a module, its inputs, and options of the export.
# SPDX-License-Identifier: Apache-2.0
import copy
import math

from pytorch import F, torch  # says SKIP and ends without PyTorch
from today_modules import BATCH, ids, reals

nn = torch.nn


# ---- pictures ----

class SwinV2(nn.Module):
    """Windows, shifted in every second block; cosines of queries and keys, and biases by a network of log-spaced
    distances; norms after what they norm."""

    def __init__(self, width=8, heads=2, window=4, size=8):
        super().__init__()
        self.heads, self.window = heads, window
        self.patch, self.head = nn.Conv2d(3, width, 2, 2), nn.Linear(width, 5)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb = nn.Sequential(nn.Linear(2, 16), nn.ReLU(inplace=True), nn.Linear(16, heads, bias=False))
        self.proj, self.norm = nn.ModuleList(nn.Linear(width, width) for _ in range(2)), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        at = torch.arange(-(window - 1), window, dtype=torch.float32)
        table = torch.stack(torch.meshgrid([at, at], indexing="ij")).permute(1, 2, 0).contiguous().unsqueeze(0)
        table = table / (window - 1) * 8
        self.register_buffer("table", torch.sign(table) * torch.log2(torch.abs(table) + 1.0) / math.log2(8))
        at = torch.stack(torch.meshgrid([torch.arange(window)] * 2, indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0).contiguous() + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        mask, count = torch.zeros(1, size, size, 1), 0
        for h in (slice(0, -window), slice(-window, -window // 2), slice(-window // 2, None)):
            for w in (slice(0, -window), slice(-window, -window // 2), slice(-window // 2, None)):
                mask[:, h, w, :], count = count, count + 1
        mask = self.parted(mask).view(-1, window * window)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        self.register_buffer("mask", mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0))

    def parted(self, x):
        n, h, w, c = x.shape
        x = x.view(n, h // self.window, self.window, w // self.window, self.window, c)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.window * self.window, c)

    def attend(self, i, x, mask):
        n, t, c = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias, requires_grad=False), self.v_bias))
        qkv = F.linear(x, self.qkv[i].weight, bias).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.scale, max=math.log(1.0 / 0.01)).exp()
        bias = self.cpb(self.table).view(-1, self.heads)[self.index.view(-1)].view(t, t, -1).permute(2, 0, 1)
        attn = attn + 16 * torch.sigmoid(bias).unsqueeze(0)
        if mask is not None:
            attn = attn.view(n // len(mask), len(mask), self.heads, t, t) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.heads, t, t)
        return self.proj[i]((attn.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))

    def forward(self, x, labels):
        x = self.patch(x).permute(0, 2, 3, 1)
        n, h, w, c = x.shape
        for i, shift in enumerate((0, self.window // 2)):
            y = torch.roll(x, shifts=(-shift, -shift), dims=(1, 2)) if shift else x
            y = self.attend(i, self.parted(y), self.mask if shift else None)
            y = y.view(n, h // self.window, w // self.window, self.window, self.window, c)
            y = y.permute(0, 1, 3, 2, 4, 5).contiguous().view(n, h, w, c)
            x = x + self.norm(torch.roll(y, shifts=(shift, shift), dims=(1, 2)) if shift else y)
            x = x + self.norm(self.mlp(x))
        return F.cross_entropy(self.head(x.flatten(1, 2).transpose(1, 2).mean(-1)), labels)


class MaxViT(nn.Module):
    """An inverted bottleneck with squeezes, attention in blocks, then over a grid, with biases of places."""

    def __init__(self, width=8, heads=2, window=2, size=8):
        super().__init__()
        self.heads, self.window = heads, window
        self.mbconv = nn.Sequential(nn.BatchNorm2d(width), nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(
            4 * width), nn.GELU(), nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4 * width, 2, 1), nn.SiLU(), nn.Conv2d(
            2, 4 * width, 1), nn.Sigmoid())
        self.shrink, self.stem = nn.Conv2d(4 * width, width, 1), nn.Conv2d(3, width, 3, padding=1)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.ffn = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
                                 for _ in range(2))
        places = window * window if window * window == (size // window) ** 2 else None
        self.bias = nn.Parameter(torch.zeros(heads, (2 * window - 1) ** 2)) if places else None
        self.head = nn.Linear(width, 5)

    def attend(self, i, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for y in self.qkv[i](self.norms[2 * i](x)).chunk(
            3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2)
        x = x + y
        return x + self.ffn[i](self.norms[2 * i + 1](x))

    def forward(self, x, labels):
        x = self.stem(x)
        y = self.mbconv(x)
        x = x + self.shrink(y * self.squeeze(y))
        n, c, h, w = x.shape
        p = self.window
        y = x.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(n, -1, p * p, c)
        y = self.attend(0, y).reshape(n, h // p, w // p, p, p, c).permute(0, 5, 1, 3, 2, 4).reshape(n, c, h, w)
        y = y.reshape(n, c, p, h // p, p, w // p).permute(0, 3, 5, 2, 4, 1).reshape(n, -1, p * p, c)
        y = self.attend(1, y).reshape(n, h // p, w // p, p, p, c).permute(0, 5, 3, 1, 4, 2).reshape(n, c, h, w)
        return F.cross_entropy(self.head(y.mean([2, 3])), labels)


class SegFormer(nn.Module):
    """Patches that overlap, keys of fewer places, depthwise convolutions between linear layers, one head for all."""

    def __init__(self, widths=(8, 12), heads=2, classes=4):
        super().__init__()
        self.heads, before = heads, 3
        self.stages = nn.ModuleList()
        for i, c in enumerate(widths):
            self.stages.append(nn.ModuleDict({
                "patch": nn.Conv2d(before, c, 7 - 4 * i, 4 - 2 * i, 3 - 2 * i), "norm": nn.LayerNorm(c),
                "q": nn.Linear(c, c), "kv": nn.Linear(c, 2 * c), "sr": nn.Conv2d(c, c, 2, 2),
                "sr_norm": nn.LayerNorm(c), "proj": nn.Linear(c, c), "fc1": nn.Linear(c, 4 * c),
                "fc2": nn.Linear(4 * c, c),
                "dw": nn.Conv2d(4 * c, 4 * c, 3, 1, 1, groups=4 * c), "last": nn.LayerNorm(c)}))
            before = c
        self.linear = nn.ModuleList(nn.Linear(c, 8) for c in widths)
        self.fuse = nn.Sequential(nn.Conv2d(8 * len(widths), 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.classify = nn.Conv2d(8, classes, 1)

    def attend(self, s, x, h, w):
        n, t, c = x.shape
        q = s["q"](x).reshape(n, t, self.heads, c // self.heads).permute(0, 2, 1, 3)
        y = s["sr"](x.permute(0, 2, 1).reshape(n, c, h, w)).reshape(n, c, -1).permute(0, 2, 1)
        kv = s["kv"](s["sr_norm"](y)).reshape(n, -1, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q @ kv[0].transpose(-2, -1) * (c // self.heads) ** -0.5).softmax(dim=-1)
        return s["proj"]((attn @ kv[1]).transpose(1, 2).reshape(n, t, c))

    def forward(self, x, labels):
        found, size = [], x.shape[2:]
        for s in self.stages:
            x = s["patch"](x)
            n, c, h, w = x.shape
            x = x.flatten(2).transpose(1, 2)
            x = x + self.attend(s, s["norm"](x), h, w)
            y = s["fc1"](s["last"](x)).transpose(1, 2).view(n, -1, h, w)
            x = x + s["fc2"](F.gelu(s["dw"](y).flatten(2).transpose(1, 2)))
            x = x.reshape(n, h, w, c).permute(0, 3, 1, 2).contiguous()
            found.append(x)
        to = found[0].shape[2:]
        maps = [F.interpolate(f(y.flatten(2).transpose(1, 2)).permute(0, 2, 1).reshape(len(y), -1, *y.shape[2:]),
                              size=to, mode="bilinear", align_corners=False) for f, y in zip(self.linear, found)]
        logits = F.interpolate(self.classify(self.fuse(torch.cat(maps[::-1], dim=1))), size=size, mode="bilinear")
        return F.cross_entropy(logits, labels, ignore_index=255)


class RTDETR(nn.Module):
    """Attention inside one scale, a second one joined by convolutions, the likeliest places of all as queries, whose
    boxes are refined; the varifocal loss and boxes by overlaps, matched as an input says."""

    def __init__(self, width=8, classes=4, queries=5):
        super().__init__()
        self.back = nn.ModuleList([nn.Conv2d(3, width, 3, 2, 1), nn.Conv2d(width, width, 3, 2, 1)])
        self.aifi = nn.TransformerEncoderLayer(width, 2, 16, 0.0, "gelu", batch_first=True)
        self.fuse = nn.Sequential(nn.Conv2d(2 * width, width, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU())
        self.enc_output = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width))
        self.enc_score, self.enc_box = nn.Linear(width, classes), nn.Linear(width, 4)
        self.decoder = nn.TransformerDecoderLayer(width, 2, 16, 0.0, batch_first=True)
        self.places, self.score, self.box = nn.Linear(4, width), nn.Linear(width, classes), nn.Linear(width, 4)
        self.queries, self.classes = queries, classes

    @staticmethod
    def corners(b):
        x, y, w, h = b.unbind(-1)
        return torch.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h], dim=-1)

    def overlap(self, a, b):
        a, b = self.corners(a), self.corners(b)
        area = [(z[..., 2] - z[..., 0]) * (z[..., 3] - z[..., 1]) for z in (a, b)]
        wh = (torch.min(a[..., 2:], b[..., 2:]) - torch.max(a[..., :2], b[..., :2])).clamp(min=0)
        inter = wh[..., 0] * wh[..., 1]
        union = area[0] + area[1] - inter + 1e-6
        wide = (torch.max(a[..., 2:], b[..., 2:]) - torch.min(a[..., :2], b[..., :2])).clamp(min=0)
        whole = wide[..., 0] * wide[..., 1] + 1e-6
        return inter / union, inter / union - (whole - union) / whole

    def anchors(self, shapes):
        found = []
        for i, (h, w) in enumerate(shapes):
            y, x = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
            at = (torch.stack([x, y], -1).unsqueeze(0) + 0.5) / torch.tensor([w, h]).float()
            found.append(torch.cat([at, torch.ones_like(at) * 0.05 * 2.0 ** i], -1).reshape(-1, h * w, 4))
        return torch.concat(found, 1)

    def forward(self, x, boxes, labels, match):
        p3 = F.relu(self.back[0](x))
        p4 = F.relu(self.back[1](p3))
        n, c, h, w = p4.shape
        p4 = self.aifi(p4.flatten(2).permute(0, 2, 1)).permute(0, 2, 1).reshape(n, c, h, w).contiguous()
        p3 = self.fuse(torch.concat([F.interpolate(p4, scale_factor=2.0, mode="nearest"), p3], dim=1))
        memory = torch.concat([y.flatten(2).permute(0, 2, 1) for y in (p3, p4)], 1)
        anchors = self.anchors([y.shape[2:] for y in (p3, p4)]).clamp(0.01, 0.99)
        out = self.enc_output(memory)
        score, box = self.enc_score(out), self.enc_box(out) + torch.log(anchors / (1 - anchors))
        _, ind = torch.topk(score.max(-1).values, self.queries, dim=1)
        ref = box.gather(dim=1, index=ind.unsqueeze(-1).repeat(1, 1, box.shape[-1]))
        first = score.gather(dim=1, index=ind.unsqueeze(-1).repeat(1, 1, score.shape[-1]))
        target = out.gather(dim=1, index=ind.unsqueeze(-1).repeat(1, 1, out.shape[-1])).detach()
        ref_points = ref.detach().sigmoid()
        hidden = self.decoder(target + self.places(ref_points), memory)
        unact = torch.log(ref_points.clamp(1e-5) / (1 - ref_points).clamp(1e-5))
        final, logits = (self.box(hidden) + unact).sigmoid(), self.score(hidden)
        loss = 0.0
        for found, told in ((final, logits), (ref.sigmoid(), first)):
            chosen = found.gather(1, match.unsqueeze(-1).expand(-1, -1, 4))
            iou, giou = self.overlap(chosen, boxes)
            onehot = F.one_hot(labels, self.classes).to(told)
            quality = torch.zeros_like(told).scatter_add(1, match.unsqueeze(-1).expand(-1, -1, self.classes),
                                                         onehot * iou.detach().unsqueeze(-1))
            weight = 0.75 * told.sigmoid().detach().pow(2.0) * (quality == 0) + quality
            vfl = F.binary_cross_entropy_with_logits(told, quality, weight=weight, reduction="none")
            loss = loss + vfl.mean(1).sum() / len(x) + 5 * F.l1_loss(chosen, boxes) + 2 * (1 - giou).mean()
        return loss


class Planes(nn.Module):
    """K-planes: features of six planes by bilinear lookups, multiplied, then volume rendering and smooth planes."""

    def __init__(self, width=4, size=6):
        super().__init__()
        self.planes = nn.ParameterList(nn.Parameter(torch.rand(1, width, size, size) * 0.4 + 0.1) for _ in range(3))
        self.sigma, self.color = nn.Linear(width, 1 + 6), nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, origins, directions, depths, rgb):
        n, s = depths.shape
        points = origins[:, None] + directions[:, None] * depths[..., None]
        points, features = torch.tanh(points), 1.0
        for plane, (a, b) in zip(self.planes, ((0, 1), (0, 2), (1, 2))):
            at = torch.stack([points[..., a], points[..., b]], -1).view(n, 1, s, 2)
            found = F.grid_sample(plane.expand(n, -1, -1, -1), at, mode="bilinear", padding_mode="border",
                                  align_corners=True)
            features = features * found.view(n, -1, s).transpose(1, 2)
        h = self.sigma(features)
        sigma, h = F.softplus(h[..., 0] - 1), h[..., 1:]
        color = self.color(torch.cat([h, F.normalize(directions, dim=-1)[:, None].expand(-1, s, -1)], -1)).sigmoid()
        delta = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 1e2)], -1)
        alpha = 1 - torch.exp(-sigma * delta)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * through
        loss = F.mse_loss((weights[..., None] * color).sum(1) + (1 - weights.sum(1, keepdim=True)), rgb)
        smooth = sum((p[:, :, 1:] - p[:, :, :-1]).square().mean() + (p[..., 1:] - p[..., :-1]).square().mean()
                     for p in self.planes)
        return loss + 0.01 * smooth


class Depth(nn.Module):
    """Monodepth 2: a picture is made of its neighbours by its depth and their poses; the least error of all."""

    def __init__(self, width=4, size=8):
        super().__init__()
        self.encoder, self.disp = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)
        self.pose = nn.Sequential(nn.Conv2d(6, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 6, 1))
        k = torch.tensor([[0.58, 0, 0.5], [0, 1.92, 0.5], [0, 0, 1]])
        k[:2] *= size
        self.register_buffer("K", k)
        self.register_buffer("inv_K", torch.linalg.pinv(k))
        y, x = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")
        self.register_buffer("pixels", torch.stack([x, y, torch.ones_like(x)]).view(1, 3, -1))
        self.size, self.refl = size, nn.ReflectionPad2d(1)

    def rotation(self, vec):
        angle = torch.norm(vec, 2, 1, True)
        x, y, z = (vec / (angle + 1e-7)).unbind(1)
        ca, sa = torch.cos(angle[:, 0]), torch.sin(angle[:, 0])
        c = 1 - ca
        rows = [x * x * c + ca, x * y * c - z * sa, z * x * c + y * sa, x * y * c + z * sa, y * y * c + ca,
                y * z * c - x * sa, z * x * c - y * sa, y * z * c + x * sa, z * z * c + ca]
        return torch.stack(rows, 1).view(-1, 3, 3)

    def unlike(self, x, y):
        x_, y_ = self.refl(x), self.refl(y)
        mx, my = F.avg_pool2d(x_, 3, 1), F.avg_pool2d(y_, 3, 1)
        sx, sy = F.avg_pool2d(x_ ** 2, 3, 1) - mx ** 2, F.avg_pool2d(y_ ** 2, 3, 1) - my ** 2
        sxy = F.avg_pool2d(x_ * y_, 3, 1) - mx * my
        ssim = (2 * mx * my + 0.01 ** 2) * (2 * sxy + 0.03 ** 2) / (
            (mx ** 2 + my ** 2 + 0.01 ** 2) * (sx + sy + 0.03 ** 2))
        return 0.85 * torch.clamp((1 - ssim) / 2, 0, 1).mean(1, True) + 0.15 * torch.abs(x - y).mean(1, True)

    def forward(self, target, before, after):
        n = len(target)
        disp = self.disp(F.elu(self.encoder(target))).sigmoid()
        depth = 1 / (1 / 100 + (1 / 0.1 - 1 / 100) * disp * 0.1)
        points, losses = depth.view(n, 1, -1) * (self.inv_K @ self.pixels), []
        for source in (before, after):
            out = 0.01 * self.pose(torch.cat([target, source], 1)).mean(3).mean(2)
            cam = self.K @ (self.rotation(out[:, :3]) @ points + out[:, 3:, None])
            pix = (cam[:, :2] / (cam[:, 2:] + 1e-7)).view(n, 2, self.size, self.size).permute(0, 2, 3, 1)
            pix = (pix / (self.size - 1) - 0.5) * 2
            losses.append(self.unlike(F.grid_sample(source, pix, padding_mode="border", align_corners=True), target))
        losses += [self.unlike(source, target) + 1e-5 for source in (before, after)]
        to_optimise, _ = torch.min(torch.cat(losses, 1), dim=1)
        norm = disp / (disp.mean(2, True).mean(3, True) + 1e-7)
        dx = (norm[..., :-1] - norm[..., 1:]).abs() * torch.exp(
            -(target[..., :-1] - target[..., 1:]).abs().mean(1, True))
        dy = (norm[..., :-1, :] - norm[..., 1:, :]).abs() * torch.exp(
            -(target[..., :-1, :] - target[..., 1:, :]).abs().mean(1, True))
        return to_optimise.mean() + 1e-3 * (dx.mean() + dy.mean())


# ---- of noise ----

def frequencies(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2, dtype=torch.float32) / (dim // 2))
    args = t[:, None] * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class UViT(nn.Module):
    """All are tokens: the step, the class and the patches; long skips are joined; the class is left out at times, as an
    input says; errors weighed by their signal to noise, at most 5."""

    def __init__(self, width=16, heads=2, classes=5, steps=20):
        super().__init__()
        self.patch, self.label = nn.Conv2d(3, width, 2, 2), nn.Embedding(classes + 1, width)
        self.places = nn.Parameter(torch.zeros(1, 2 + 16, width))
        self.ins, self.outs = (nn.ModuleList(nn.TransformerEncoderLayer(
            width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2))
            for _ in range(2))
        self.skips = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.norm, self.pred = nn.LayerNorm(width), nn.Linear(width, 12)
        self.final, self.classes = nn.Conv2d(3, 3, 3, padding=1), classes
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-3, 0.2, steps), 0))

    def forward(self, x0, noise, steps, labels, dropped):
        kept = self.kept[steps].view(-1, 1, 1, 1)
        x = self.patch(kept.sqrt() * x0 + (1 - kept).sqrt() * noise)
        n, c, h, w = x.shape
        time = frequencies(steps, c).unsqueeze(1)
        label = self.label(torch.where(dropped, torch.full_like(labels, self.classes), labels)).unsqueeze(1)
        x = torch.cat((label, time, x.flatten(2).transpose(1, 2)), dim=1) + self.places
        skips = []
        for block in self.ins:
            x = block(x)
            skips.append(x)
        for block, skip in zip(self.outs, self.skips):
            x = block(skip(torch.cat([x, skips.pop()], dim=-1)))
        x = self.pred(self.norm(x))[:, 2:]
        x = x.view(n, h, w, 2, 2, 3).permute(0, 5, 1, 3, 2, 4).reshape(n, 3, 2 * h, 2 * w)
        snr = self.kept[steps] / (1 - self.kept[steps])
        weight = torch.stack([snr, 5 * torch.ones_like(snr)], dim=1).min(dim=1)[0] / snr
        return (F.mse_loss(self.final(x), noise, reduction="none").mean(dim=[1, 2, 3]) * weight).mean()


class Consistent(nn.Module):
    """Consistency training: two noises of one sample, the less noisy side without gradients, pseudo-Huber errors."""

    def __init__(self, width=8, steps=9):
        super().__init__()
        self.net = nn.ModuleList([nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1),
                                  nn.Conv2d(width, 1, 3, padding=1)])
        self.time, self.norm = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)), nn.GroupNorm(
            2, width)
        at = torch.arange(steps) / (steps - 1)
        self.register_buffer("sigmas", (0.002 ** (1 / 7) + at * (80 ** (1 / 7) - 0.002 ** (1 / 7))) ** 7)
        self.width = width

    def denoised(self, x, sigma):
        s = sigma.view(-1, 1, 1, 1)
        skip, out = 0.25 / ((s - 0.002) ** 2 + 0.25), (s - 0.002) * 0.5 / (s ** 2 + 0.25).sqrt()
        h = self.net[0](x / (s ** 2 + 0.25).sqrt())
        h = h + self.time(frequencies(250 * torch.log(sigma), self.width))[:, :, None, None]
        return skip * x + out * self.net[2](F.silu(self.norm(self.net[1](F.silu(h)))))

    def forward(self, x, noise, steps):
        now, then = self.sigmas[steps], self.sigmas[steps + 1]
        student = self.denoised(x + then.view(-1, 1, 1, 1) * noise, then)
        with torch.no_grad():
            teacher = self.denoised(x + now.view(-1, 1, 1, 1) * noise, now)
        c = 0.00054 * math.sqrt(x[0].numel())
        loss = (torch.sqrt((student - teacher).pow(2).sum(dim=(1, 2, 3)) + c ** 2) - c) / (then - now)
        return loss.mean()


class Aligned(nn.Module):
    """SiT with REPA: a flow's velocity by blocks that the time shifts, and features aligned with a frozen network's."""

    def __init__(self, width=12, heads=2):
        super().__init__()
        self.into, self.time = nn.Linear(12, width), nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(
            width, width))
        self.label, self.heads = nn.Embedding(6, width), heads
        self.ada = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU("tanh"), nn.Linear(
            2 * width, width)) for _ in range(2))
        self.last, self.out = nn.Linear(width, 2 * width), nn.Linear(width, 12)
        self.project = nn.Sequential(nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, 10))
        self.frozen = nn.Sequential(nn.Conv2d(3, 10, 2, 2), nn.GELU()).requires_grad_(False)

    def forward(self, x1, x0, t, labels):
        t_ = t.view(-1, 1, 1, 1)
        x, goal = (1 - t_) * x0 + t_ * x1, x1 - x0
        n, c, h, w = x.shape

        def patches(y):
            return y.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(n, -1, 4 * c)
        h_, said = self.into(patches(x)), F.silu(self.time(frequencies(t * 1000, 8)) + self.label(labels))
        for i, (ada, qkv, mlp) in enumerate(zip(self.ada, self.qkv, self.mlp)):
            s1, b1, g1, s2, b2, g2 = ada(said).unsqueeze(1).chunk(6, dim=-1)
            y = F.layer_norm(h_, h_.shape[-1:]) * (1 + s1) + b1
            q, k, v = qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            h_ = h_ + g1 * F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            h_ = h_ + g2 * mlp(F.layer_norm(h_, h_.shape[-1:]) * (1 + s2) + b2)
            if i == 0:
                z = F.normalize(self.project(h_), dim=-1)
        scale, shift = self.last(said).unsqueeze(1).chunk(2, dim=-1)
        v = self.out(F.layer_norm(h_, h_.shape[-1:]) * (1 + scale) + shift)
        with torch.no_grad():
            features = F.normalize(self.frozen(x1).flatten(2).transpose(1, 2), dim=-1)
        return F.mse_loss(v, patches(goal)) + 0.5 * -(z * features).sum(-1).mean()


# ---- what views have in common ----

class Swapped(nn.Module):
    """SwAV: codes of one view, evened out over the batch by Sinkhorn's iteration, are told from the other's."""

    def __init__(self, width=8, prototypes=6):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, width), nn.BatchNorm1d(width, track_running_stats=False), nn.ReLU(),
                                 nn.Linear(width, width))
        self.prototypes = nn.utils.parametrizations.weight_norm(nn.Linear(width, prototypes, bias=False))

    @torch.no_grad()
    def codes(self, scores):
        q = torch.exp(scores / 0.5).t()
        q = q / torch.sum(q)
        k, n = q.shape
        for _ in range(3):
            q = q / torch.sum(q, dim=1, keepdim=True) / k
            q = q / torch.sum(q, dim=0, keepdim=True) / n
        return (q * n).t()

    def forward(self, a, b):
        p, q = (self.prototypes(F.normalize(self.net(x), dim=1)) for x in (a, b))
        one, two = self.codes(p), self.codes(q)
        return -0.5 * (torch.sum(one * F.log_softmax(q / 0.1, dim=1), dim=1).mean() + torch.sum(
            two * F.log_softmax(p / 0.1, dim=1), dim=1).mean())


class Queued(nn.Module):
    """MoCo: a second network that only follows, and a queue of negatives."""

    def __init__(self, width=8, kept=12):
        super().__init__()
        self.q = nn.Sequential(nn.Conv2d(3, width, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                               nn.Linear(width, width))
        self.k = copy.deepcopy(self.q)
        for p in self.k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(width, kept), dim=0))

    def forward(self, x, y):
        q = F.normalize(self.q(x), dim=1)
        with torch.no_grad():
            k = F.normalize(self.k(y), dim=1)
        pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([pos, neg], dim=1) / 0.07
        return F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))


class Predictive(nn.Module):
    """I-JEPA: of what is left of a picture's patches, the features of others are told, which a following network
    makes of all; which are which is an input."""

    def __init__(self, width=8, heads=2, places=16):
        super().__init__()

        def block(c):
            return nn.TransformerEncoderLayer(c, heads, 2 * c, 0.0, "gelu", batch_first=True, norm_first=True)
        self.patch, self.encoder, self.norm = nn.Conv2d(3, width, 2, 2), block(width), nn.LayerNorm(width)
        self.register_buffer("pos", torch.randn(1, places, width))
        self.target = copy.deepcopy(nn.ModuleList([self.patch, self.encoder, self.norm])).requires_grad_(False)
        self.into, self.predictor, self.out = nn.Linear(width, 6), block(6), nn.Linear(6, width)
        self.token, self.small = nn.Parameter(torch.zeros(1, 1, 6)), nn.Parameter(torch.randn(1, places, 6))

    @staticmethod
    def take(x, at):
        return torch.gather(x, dim=1, index=at.unsqueeze(-1).repeat(1, 1, x.size(-1)))

    def forward(self, x, seen, hidden):
        with torch.no_grad():
            patch, encoder, norm = self.target
            h = norm(encoder(patch(x).flatten(2).transpose(1, 2) + self.pos))
            h = self.take(F.layer_norm(h, (h.size(-1),)), hidden)
        z = self.take(self.patch(x).flatten(2).transpose(1, 2) + self.pos, seen)
        z = self.into(self.norm(self.encoder(z)))
        small = self.small.repeat(len(x), 1, 1)
        z = torch.cat([z + self.take(small, seen), self.token + self.take(small, hidden)], dim=1)
        return F.smooth_l1_loss(self.out(self.predictor(z)[:, seen.size(1):]), h)


class Decoupled(nn.Module):
    """DKD: of a teacher's logits, those of the right class and those of the others are learned apart."""

    def __init__(self, classes=5):
        super().__init__()
        self.student, self.teacher = nn.Linear(8, classes), nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(
            16, classes)).requires_grad_(False)

    def forward(self, x, target):
        s = self.student(x)
        with torch.no_grad():
            t = self.teacher(x)
        mask = torch.zeros_like(s).scatter_(1, target.unsqueeze(1), 1).bool()
        other = torch.ones_like(s).scatter_(1, target.unsqueeze(1), 0).bool()
        a, b = (torch.cat([(p * m).sum(1, keepdims=True) for m in (mask, other)], dim=1)
                for p in (F.softmax(s / 4, dim=1), F.softmax(t / 4, dim=1)))
        tckd = F.kl_div(torch.log(a), b, reduction="sum") * 16 / target.shape[0]
        nckd = F.kl_div(F.log_softmax(s / 4 - 1000.0 * mask, dim=1), F.softmax(t / 4 - 1000.0 * mask, dim=1),
                        reduction="batchmean") * 16
        return F.cross_entropy(s, target) + tckd + 2 * nckd


def orders(count, of):
    return torch.stack([torch.randperm(of)[:count] for _ in range(BATCH)])


MODELS = {
    "Swin V2, by hand": lambda: (SwinV2(), (reals(3, 16, 16), ids(below=5)), {}),
    "MaxViT, by hand": lambda: (MaxViT(), (reals(3, 8, 8), ids(below=5)), {}),
    "SegFormer, by hand": lambda: (SegFormer(), (reals(3, 32, 32), ids(32, 32, below=4)), {}),
    "RT-DETR": lambda: (RTDETR(), (reals(3, 16, 16), torch.rand(BATCH, 2, 4) * 0.5 + 0.2, ids(2, below=4),
                                   orders(2, 5)), {"below": {"match": 5}}),
    "K-planes": lambda: (Planes(), (reals(3), reals(3), torch.rand(BATCH, 6).cumsum(1), torch.rand(BATCH, 3)), {}),
    "Monodepth 2": lambda: (Depth(), (torch.rand(BATCH, 3, 8, 8), torch.rand(BATCH, 3, 8, 8),
                                      torch.rand(BATCH, 3, 8, 8)), {}),
    "U-ViT": lambda: (UViT(), (reals(3, 8, 8), reals(3, 8, 8), ids(below=20), ids(below=5),
                               torch.rand(BATCH) < 0.3), {}),
    "consistency": lambda: (Consistent(), (reals(1, 6, 6), reals(1, 6, 6), ids(below=8)), {}),
    "SiT, REPA": lambda: (Aligned(), (reals(3, 4, 4), reals(3, 4, 4), torch.rand(BATCH), ids(below=6)), {}),
    "SwAV": lambda: (Swapped(), (reals(10), reals(10)), {}),
    "MoCo": lambda: (Queued(), (reals(3, 8, 8), reals(3, 8, 8)), {}),
    "I-JEPA": lambda: (Predictive(), (reals(3, 8, 8), orders(6, 16), orders(4, 16)), {"below": {
        "seen": 16, "hidden": 16}}),
    "DKD": lambda: (Decoupled(), (reals(8), ids(below=5)), {})}
