# The zoo's transformers as PyTorch's own modules, or others, have them: of inputs and weights by the
# graph's names the loss.  SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F
from torch.nn.utils.stateless import functional_call

# Arguments of ffzoo: toy sizes.
SIZES = {
    "gpt2": ["--batch", "5", "--set", "layers=2", "--set", "width=12", "--set", "heads=3",
             "--set", "sequence=7", "--set", "vocabulary=23"],
    "bert": ["--batch", "5", "--set", "layers=2", "--set", "width=12", "--set", "heads=2",
             "--set", "sequence=6", "--set", "vocabulary=19"],
    "llama": ["--batch", "4", "--set", "layers=2", "--set", "width=24", "--set", "heads=4",
              "--set", "key_heads=2", "--set", "hidden=20", "--set", "sequence=7",
              "--set", "vocabulary=23"],
    "vit_b16": ["--batch", "5", "--set", "layers=2", "--set", "width=12", "--set", "heads=3",
                "--set", "image=9", "--set", "patch=3", "--set", "classes=7"],
}


def ahead(n):
    return torch.full((n, n), float("-inf"), dtype=torch.float64).triu(1)


def encoder_layer(w, p, x, heads, before, activation, epsilon, mask=None):
    """nn.TransformerEncoderLayer with the weights of block `p`."""
    width, hidden = x.shape[2], w[f"{p}.mlp.up.weight"].shape[0]
    layer = torch.nn.TransformerEncoderLayer(width, heads, hidden, 0, activation, epsilon, True,
                                             before).double()
    own = {}
    for kind in ("weight", "bias"):
        own[f"self_attn.in_proj_{kind}"] = torch.cat(
            [w[f"{p}.attention.{name}.{kind}"] for name in ("query", "key", "value")])
        for name, ours in (("self_attn.out_proj", "attention.out"), ("linear1", "mlp.up"),
                           ("linear2", "mlp.down"), ("norm1", "norm1"), ("norm2", "norm2")):
            own[f"{name}.{kind}"] = w[f"{p}.{ours}.{kind}"]
    return functional_call(layer, own, (x,), {"src_mask": mask})


def norm(w, name, x, epsilon):
    return F.layer_norm(x, x.shape[2:], w[f"{name}.weight"], w[f"{name}.bias"], epsilon)


def linear(w, name, x):
    return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def gpt2(w, data, labels):
    x = F.embedding(data, w["embed.weight"]) + w["position.weight"]
    for i in range(2):
        x = encoder_layer(w, f"block{i}", x, 3, True, lambda x: F.gelu(x, approximate="tanh"), 1e-5,
                          ahead(7))
    x = F.linear(norm(w, "norm", x, 1e-5), w["embed.weight"])
    return F.cross_entropy(x.flatten(0, 1), labels.flatten())


def bert(w, data, types, labels):
    x = F.embedding(data, w["embed.weight"]) + F.embedding(types, w["type.weight"])
    x = norm(w, "norm", x + w["position.weight"], 1e-12)
    for i in range(2):
        x = encoder_layer(w, f"block{i}", x, 2, False, F.gelu, 1e-12)
    x = torch.tanh(linear(w, "pooler", x[:, 0]))
    return F.cross_entropy(linear(w, "classifier", x), labels)


def rms(w, name, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w[f"{name}.weight"]


def turned(x, base=10000):
    """Pairs half a head apart are complex numbers."""
    half = x.shape[-1] // 2
    angle = torch.outer(torch.arange(x.shape[2]).double(),
                        1 / base ** (torch.arange(half).double() / half))
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], -1)


def llama(w, data, labels):
    x = F.embedding(data, w["embed.weight"])
    for i in range(2):
        p = f"block{i}"
        y = rms(w, f"{p}.norm1", x)
        q, k, v = (linear(w, f"{p}.attention.{name}", y).unflatten(2, (-1, 6)).transpose(1, 2)
                   for name in ("query", "key", "value"))
        k, v = (y.repeat_interleave(2, 1) for y in (turned(k), v))
        scores = turned(q) @ k.mT / 6 ** 0.5 + ahead(7)
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + linear(w, f"{p}.attention.out", y)
        y = rms(w, f"{p}.norm2", x)
        y = F.silu(linear(w, f"{p}.mlp.gate", y)) * linear(w, f"{p}.mlp.up", y)
        x = x + linear(w, f"{p}.mlp.down", y)
    x = linear(w, "logits", rms(w, "norm", x))
    return F.cross_entropy(x.flatten(0, 1), labels.flatten())


def vit_b16(w, data, labels):
    x = F.conv2d(data, w["patches.weight"], w["patches.bias"], 3).flatten(2).mT
    x = torch.cat([w["class.weight"].expand(len(x), 1, 12), x], 1) + w["position.weight"]
    for i in range(2):
        x = encoder_layer(w, f"block{i}", x, 3, True, F.gelu, 1e-6)
    return F.cross_entropy(linear(w, "head", norm(w, "norm", x, 1e-6)[:, 0]), labels)


def step(module, weights, inputs):
    """Loss and gradients of arrays by name."""
    w = {key: torch.from_numpy(value.astype("f8")).requires_grad_()
         for key, value in weights.items()}
    data = {key: torch.from_numpy(value.astype("i8" if value.dtype.kind == "i" else "f8"))
            for key, value in inputs.items()}
    loss = module(w, **data)
    loss.backward()
    return loss.detach(), {key: value.grad for key, value in w.items()}


# By network of the zoo: as a module, and toy sizes.
NETS = [(net, globals()[net], sizes) for net, sizes in SIZES.items()]
