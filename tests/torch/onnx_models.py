# Modules whose exports have many kinds of nodes.  SPDX-License-Identifier: Apache-2.0
from pytorch import F, torch  # says SKIP and ends without PyTorch

nn = torch.nn


class Trained(nn.Module):
    """What is written otherwise while training, and from opset to opset: dropout, also of
    attention's weights, and norms by what the batch has, with numbers of their own and without."""

    def __init__(self, width=8):
        super().__init__()
        self.norm, self.plain = nn.BatchNorm2d(6, 1e-3, 0.3), nn.BatchNorm1d(5, affine=False)
        nn.init.normal_(self.norm.weight)
        self.conv, self.rows = nn.Conv2d(2, 6, 3, bias=False), nn.Linear(10, width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.weights, self.last = (nn.Dropout(p) for p in (0.2, 0.4, 0.3))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.out = nn.Linear(6 * width, 5)

    def forward(self, x):  # n, 2, 7, 12
        x = self.first(torch.tanh(self.norm(self.conv(x))))
        x = self.norm1(self.rows(x.mean(2)))
        q, k, v = (y.view(len(x), 6, 2, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, 2))
        a = self.weights((q @ k.transpose(2, 3) / 2.0).softmax(-1)) @ v
        x = x + self.last(self.mix(a.transpose(1, 2).reshape(x.shape)))
        return self.plain(self.out(self.norm2(x).flatten(1)))


class Cell(nn.Module):
    """An unrolled recurrence over embedded words: shared weights, shapes that are computed."""

    def __init__(self, words=11, width=6):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.input, self.state = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        h = torch.tanh(self.input(x[:, 0]))
        for t in range(1, ids.shape[1]):
            h = torch.tanh(self.input(x[:, t]) + self.state(h)) * torch.sigmoid(x.select(1, t))
        return self.out(h)


class Shapes(nn.Module):
    """What moves and reshapes."""

    def __init__(self, last=False):
        super().__init__()
        self.last = last
        self.a, self.b = nn.Linear(6, 8), nn.Linear(4, 5)

    def forward(self, x):  # n, 4, 6
        y = F.relu(self.a(x))
        y, z, w = torch.split(y, [2, 2, 4], dim=2)
        y = torch.cat([y + z, w[:, :, 1:3]], dim=2).transpose(1, 2)
        y = y.reshape(y.size(0), y.shape[1] // 2, -1, 4).flatten(1, 2)
        y = self.b(y).mul(self.b(y.unsqueeze(3).squeeze(-1)))
        return y if self.last else y.flatten(1)


class Images(nn.Module):
    """Convolutions of every kind, pooling, branches."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4, bias=False)
        self.c = nn.Conv2d(8, 4, (1, 3), padding=(0, 1))
        self.out = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(12, 5))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 3, 2, 1)
        y = torch.cat([torch.tanh(self.b(x)) + x, torch.sigmoid(self.c(x))], 1)
        return self.out(F.avg_pool2d(y, 3, 1, 1))


class Windows(nn.Module):
    """Windows along one axis and along three, sizes rounded up, padding that does not count."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 6, 3, padding=1)
        self.line = nn.Conv1d(6, 5, 4, stride=2, padding=3, dilation=2)
        self.volume = nn.Conv3d(6, 4, (1, 2, 3), padding=(0, 1, 2), groups=2)
        self.out = nn.Linear(self.parts(torch.zeros(1, 3, 10, 9)).shape[1], 5)

    def parts(self, x):
        x = torch.tanh(self.a(x))
        y = F.max_pool2d(F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), 3, 2, ceil_mode=True)
        line = F.max_pool1d(self.line(x.flatten(2)), 3, 2, ceil_mode=True)
        volume = F.max_pool3d(self.volume(x.reshape(-1, 6, 2, 5, 9)), (1, 2, 3), 2, ceil_mode=True)
        return torch.cat([y.flatten(1), line.flatten(1), volume.flatten(1)], 1)

    def forward(self, x):
        return self.out(self.parts(x))


class Transposed(nn.Module):
    """Transposed convolutions along one to three axes, the largest of whole images."""

    def __init__(self):
        super().__init__()
        self.a = nn.ConvTranspose2d(3, 6, 3, stride=2, padding=1, output_padding=1)
        self.b = nn.ConvTranspose2d(6, 4, (2, 3), dilation=(1, 2), groups=2, bias=False)
        self.line = nn.ConvTranspose1d(6, 5, 4, stride=3, padding=2)
        self.volume = nn.ConvTranspose3d(6, 4, (1, 2, 3), stride=(2, 1, 2), groups=2)
        self.out = nn.Linear(13, 5)

    def forward(self, x):
        x = torch.tanh(self.a(F.pad(x, (1, 2, 0, 1), "reflect")))
        x = F.pad(x, (0, 1, 2, 0), "replicate")
        volume = self.volume(x.reshape(-1, 6, 2, x.shape[2] // 2, x.shape[3]))
        parts = [F.adaptive_max_pool2d(self.b(x), 1), F.adaptive_max_pool1d(
            self.line(x.flatten(2)), 1), F.adaptive_avg_pool3d(volume, 1)]
        return self.out(torch.cat([p.flatten(1) for p in parts], 1))


class Neighbours(torch.autograd.Function):
    """PyTorch writes its response norm as what it is made of, others as one operator."""

    @staticmethod
    def symbolic(g, x):
        return g.op("LRN", x, size_i=3, alpha_f=0.3, beta_f=0.6, bias_f=1.5)

    @staticmethod
    def forward(ctx, x):
        return F.local_response_norm(x, 3, 0.3, 0.6, 1.5)


class Resized(nn.Module):
    """Other sizes, by factors and as they are told, of one to three axes; norms of few channels."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.norm, self.plain = nn.InstanceNorm2d(8, affine=True), nn.InstanceNorm2d(8)
        self.groups = nn.GroupNorm(4, 8)
        nn.init.normal_(self.norm.weight), nn.init.normal_(self.groups.bias)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.tanh(self.groups(self.a(x)))
        small = F.avg_pool2d(x, 2)
        parts = [F.interpolate(small, scale_factor=2), F.interpolate(small, size=x.shape[2:]),
                 F.interpolate(x, size=(7, 5)), F.interpolate(x, size=(13, 11)),
                 F.interpolate(small, scale_factor=2, mode="bilinear"),
                 F.interpolate(x, size=(5, 13), mode="bilinear"),
                 F.interpolate(x, size=(11, 3), mode="bilinear", align_corners=True),
                 F.interpolate(x.flatten(2), size=29, mode="linear"),
                 F.interpolate(x.reshape(-1, 8, 2, 4, 10), size=(3, 5, 7), mode="trilinear")]
        norms = [F.local_response_norm(x, 3, 0.3, 0.6, 1.5) if not torch.onnx.is_in_onnx_export()
                 else Neighbours.apply(x), self.norm(x), self.plain(small)]
        return self.out(sum((i + 1) * (y * y).flatten(2).mean(2) for i, y in enumerate(parts + norms)))


class UNet(nn.Module):
    """U-Net of three levels: classes for every pixel."""

    def __init__(self, width=4, norm=False, classes=3):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]

        def twice(a, b):
            return nn.Sequential(*(layer for i in (a, b) for layer in (
                nn.Conv2d(i, b, 3, padding=1, bias=not norm),
                *([nn.BatchNorm2d(b)] if norm else []), nn.ReLU())))
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([2] + sizes, sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * a, a, 2, 2) for a in sizes[-2::-1])
        self.join = nn.ModuleList(twice(2 * a, a) for a in sizes[-2::-1])
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(F.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1]):
            x = up(x)
            high, wide = (b - a for a, b in zip(x.shape[2:], skip.shape[2:]))
            x = F.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
            x = join(torch.cat([skip, x], 1))
        return self.out(x)


class Picks(nn.Module):
    """Numbers around tensors, elements in other orders, tensors and parameters that are expanded,
    conditions, masks and tables that are known."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 5)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.register_buffer("table", torch.randn(3, 8))
        self.register_buffer("order", torch.tensor([3, 0, 3, 1]))

    def forward(self, x):  # n, 4, 6
        y = self.a(x)
        y = torch.cat([self.token.expand(len(y), -1, -1), y], 1)  # 5 rows
        z = F.pad(y[:, ::2], (1, 2), value=0.5)[:, :, 1:9] + F.pad(y, (0, 0, -1, -1))
        z = torch.where(torch.ones(3, 8).tril(2) > 0, z, y[:, 1:4])
        z = z.masked_fill(torch.ones(8).cumsum(0) % 4 == 0, -0.25)
        w = y[:, :1].expand(-1, 3, -1) * y.index_select(1, self.order)[:, :3]
        return self.b(z * 2.0 + w).flatten(1)[:, 1::2]


class Decoder(nn.Module):
    """Words, places, masked attention of several heads, the next word."""

    def __init__(self, words=11, width=8, places=5):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.out = nn.Linear(width, words)
        self.register_buffer("mask", torch.ones(places, places).tril().view(1, 1, places, places))

    def forward(self, ids):
        n, t = ids.shape
        x = self.words(ids) + self.places(torch.arange(t))
        q, k, v = (y.view(n, t, 2, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, 2))
        a = (q @ k.transpose(-2, -1)) / 2.0
        a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        return self.out(x + self.mix((a @ v).transpose(1, 2).reshape(n, t, -1)))[:, -1]


class Attention(nn.Module):
    """PyTorch's own attention and encoder: sequences before samples, heads and samples as one."""

    def __init__(self, width=8):
        super().__init__()
        self.front = nn.Linear(6, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 12, dropout=0.0)
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        y = self.layer(self.front(x).transpose(0, 1))
        return self.out(y.mean(0))


class Words(nn.Module):
    """Two layers of LSTM cells, the next word."""

    def __init__(self, words=11, width=8, hidden=6):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width), nn.Linear(hidden, words)
        self.cells = nn.LSTM(width, hidden, 2, batch_first=True)

    def forward(self, ids):
        return self.out(self.cells(self.embed(ids))[0])[:, -1]


class Recurrent(nn.Module):
    """A recurrence of PyTorch's, all that it gives: every step's state and what it ends with."""

    def __init__(self, kind, begin, **how):
        """`begin`: from zeros, or a state (and cell) that is trained or computed."""
        super().__init__()
        self.cells = getattr(nn, kind)(5, 6, **how)
        two = 2 if how.get("bidirectional") else 1
        self.both, self.begin, self.states = two, begin, 2 if kind == "LSTM" else 1
        if begin == "trained":
            self.start = nn.ParameterList(nn.Parameter(torch.randn(two, 1, 6))
                                          for _ in range(self.states))
        if begin == "computed":
            self.start = nn.ModuleList(nn.Linear(5, 6 * two) for _ in range(self.states))
        self.out = nn.Linear(6 * two, 7)

    def first(self, x):
        if self.begin == "trained":
            return [s.expand(-1, len(x), -1) for s in self.start]
        return [s(x[:, 0]).view(len(x), self.both, 6).transpose(0, 1) for s in self.start]

    def forward(self, x):
        states = self.first(x) if self.begin else None
        states = states[0] if states and self.states == 1 else states
        if not self.cells.batch_first:
            y, last = self.cells(x.transpose(0, 1), states)
            y = y.mean(0)
        else:
            y, last = self.cells(x, states)
            y = y.mean(1)
        last = sum(last) if self.states == 2 else last
        return self.out(y + last.transpose(0, 1).flatten(1))


class Cells(torch.autograd.Function):
    """A GRU with the samples first, or whose reset gate is for the state, which PyTorch does not
    export."""

    @staticmethod
    def symbolic(g, x, w, r, b, first, both, before):
        lengths = g.op("prim::Constant")
        lengths.setType(torch._C.OptionalType.ofTensor())
        how = {} if before is None else {"linear_before_reset_i": before}
        return g.op("GRU", x, w, r, b, lengths, first, hidden_size_i=6, layout_i=1, **how,
                    direction_s="bidirectional" if both else "forward", outputs=2)

    @staticmethod
    def forward(ctx, x, w, r, b, first, both, before):
        n = 2 if both else 1
        return x.new_zeros(len(x), x.shape[1], n, 6), x.new_zeros(len(x), n, 6)


class SamplesFirst(nn.Module):
    """`before`: ONNX' linear_before_reset, where it is written."""

    def __init__(self, both, before=1):
        super().__init__()
        self.both, self.before = both, before
        self.cells = nn.GRU(5, 6, batch_first=True, bidirectional=both)
        self.start, self.out = nn.Linear(5, 12 if both else 6), nn.Linear(12 if both else 6, 7)

    def weights(self, what):
        """Of both directions, gates in ONNX' order."""
        return torch.stack([torch.cat([getattr(self.cells, f"{what}_l0{way}")[6 * k:6 * k + 6] for k in (1, 0, 2)])
                            for way in ("", "_reverse")[:1 + self.both]])

    def forward(self, x):
        first = self.start(x[:, 0]).view(len(x), 1 + self.both, 6)
        if torch.onnx.is_in_onnx_export():
            bias = torch.cat([self.weights("bias_ih"), self.weights("bias_hh")], 1)
            y, last = Cells.apply(x, self.weights("weight_ih"), self.weights("weight_hh"), bias,
                                  first, self.both, self.before)
            y = y.flatten(2)
        elif not self.before:
            y, last = self.reset_first(x, first)
        else:
            y, last = self.cells(x, first.transpose(0, 1).contiguous())
            last = last.transpose(0, 1)
        return self.out(y.mean(1) + last.flatten(1))


    def reset_first(self, x, first):
        """As ONNX writes it, step by step."""
        y, last = [], []
        for i, way in enumerate(("", "_reverse")[:1 + self.both]):
            w, r, b, c = (getattr(self.cells, f"{what}_l0{way}").split(6)
                          for what in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            h, steps = first[:, i], []
            for step in (x.flip(1) if way else x).unbind(1):
                reset, update = (torch.sigmoid(step @ w[k].T + h @ r[k].T + b[k] + c[k]) for k in (0, 1))
                fresh = torch.tanh(step @ w[2].T + (reset * h) @ r[2].T + c[2] + b[2])
                h = (1 - update) * fresh + update * h
                steps.append(h)
            last.append(h)
            y.append(torch.stack(steps[::-1] if way else steps, 1))
        return torch.cat(y, 2), torch.stack(last, 1)


class Translator(nn.Module):
    """An encoder's last states begin a decoder, which attends to all of the encoder's."""

    def __init__(self, words=11, width=6):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encoder, self.cells = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.out = nn.Linear(2 * width, words)

    def forward(self, ids):
        x = self.embed(ids)
        keys, state = self.encoder(x[:, :4])
        y = self.cells(x[:, 4:], state)[0]
        read = (y @ keys.transpose(1, 2)).softmax(-1) @ keys
        return self.out(torch.cat([y, read], 2))


class Block(nn.Module):
    """A transformer's block: norms, attention, functions of one element, weights that broadcast."""

    def __init__(self, width=8, words=13, places=6):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Parameter(torch.randn(1, places, width))
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=b) for b in (True, False, True))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.embed(ids) + self.place
        y = self.before(x)
        q, k, v = (m(y).view(*y.shape[:2], 2, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
        a = F.softmax(q @ k.transpose(2, 3) / 2.0, -1) @ v
        x = x + a.transpose(1, 2).reshape(x.shape)
        y = self.down(F.gelu(self.up(self.behind(x))))
        x = (x + y * torch.sigmoid(y)).mean(1)
        return self.out(1.5 - F.hardswish(x) + x.clamp(-0.5, 0.7) ** 2 - F.leaky_relu(-x, 0.1))


class BothWays(nn.Module):
    """Weights that are read as they are and transposed, as of an autoencoder."""

    def __init__(self, width=8, hidden=6):
        super().__init__()
        self.code = nn.Linear(width, hidden)
        self.back = nn.Parameter(torch.randn(width))
        self.square = nn.Parameter(torch.randn(width, width))

    def forward(self, x):  # n, 3, width
        x = torch.tanh(self.code(x)) @ self.code.weight + self.back
        return (x @ self.square.t() - x.relu() @ self.square).mean(1)


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return torch.tan(self.a(torch.tan(self.a(x)))) + torch.fmod(x, 2)
