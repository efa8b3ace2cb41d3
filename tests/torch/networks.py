# The zoo's networks of words and of ids as PyTorch's own modules have them: of inputs and weights by the
# graph's names the loss.  SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F

from operators import route
from transformers import ahead, rms, turned

WORDS = ["--batch", "5", "--set", "steps=5", "--set", "hidden=6", "--set", "vocabulary=19"]


def lstm(w, stack, x, state=None):
    """PyTorch's LSTM with the weights of layers `stack`1 and so on, and its last states."""
    layers = sum(name.startswith(stack) and name.endswith(".state.weight") for name in w)
    own = []
    for i in range(layers):
        p = f"{stack}{i + 1}"
        bias = w[f"{p}.in.bias"]
        own += [w[f"{p}.in.weight"], w[f"{p}.state.weight"], bias, torch.zeros_like(bias)]
    state = state or [x.new_zeros(layers, len(x), own[1].shape[1])] * 2
    y, *last = torch.lstm(x, state, own, True, layers, 0.0, True, False, True)
    return y, last


def linear(w, name, x):
    return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def rnnlm(w, data, labels):
    x = linear(w, "logits", lstm(w, "l", F.embedding(data, w["embed.weight"]))[0])
    return F.cross_entropy(x.flatten(0, 1), labels.flatten())


def rnntc(w, data, labels):
    x = lstm(w, "l", F.embedding(data, w["embed.weight"]))[0]
    return F.cross_entropy(linear(w, "fc", x[:, -1]), labels)


def nmt(w, data, target, labels):
    keys, state = lstm(w, "encoder", F.embedding(data, w["embed.weight"]))
    x = lstm(w, "decoder", F.embedding(target, w["embed.target.weight"]), state)[0]
    read = torch.softmax(x @ keys.transpose(1, 2), 2) @ keys
    x = torch.tanh(linear(w, "attention.out", torch.cat([read, x], 2)))
    return F.cross_entropy(linear(w, "logits", x).flatten(0, 1), labels.flatten())


def dlrm(w, data, labels, **ids):
    def layers(stack, x):
        for i in range(sum(name.startswith(stack) and name.endswith("weight") for name in w)):
            x = torch.relu(linear(w, f"{stack}{i}", x))
        return x

    x = layers("bottom", data)
    rows = [x] + [F.embedding(ids[f"ids{i}"][:, 0], w[f"table{i}.weight"]) for i in range(len(ids))]
    rows = torch.stack(rows, 1)
    i, j = torch.tril_indices(len(ids) + 1, len(ids) + 1, -1)
    pairs = (rows @ rows.transpose(1, 2))[:, i, j]
    x = linear(w, "click", layers("top", torch.cat([x, pairs], 1)))
    return F.binary_cross_entropy_with_logits(x, labels)


def experts(w, p, x):
    """Of the experts that took a place the mean, by its scores; every expert sees every place."""
    scores = torch.softmax(linear(w, f"{p}.router", x), 2)
    n = scores.shape[2]
    took = route(None, {"choices": 2, "capacity": 4}, scores).unflatten(2, (-1, n)).sum(2)
    made = []
    for e in range(n):
        gate, up, down = (w[f"{p}.{name}.weight"].flatten(2).unflatten(0, (n, -1))[e, :, :, 0]
                          for name in ("gate", "up", "down"))
        made.append(F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down))
    share = took * scores
    share = share / share.sum(2, keepdim=True).clamp(min=1e-9)
    return (torch.stack(made, 2) * share[..., None]).sum(2)


def moe(w, data, labels):
    x = F.embedding(data, w["embed.weight"])
    for i in range(2):
        p = f"block{i}"
        y = rms(w, f"{p}.norm1", x)
        q, k, v = (linear(w, f"{p}.attention.{name}", y).unflatten(2, (-1, 6)).transpose(1, 2)
                   for name in ("query", "key", "value"))
        k, v = (y.repeat_interleave(2, 1) for y in (turned(k, 1e6), v))
        scores = turned(q, 1e6) @ k.mT / 6 ** 0.5 + ahead(7)
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + linear(w, f"{p}.attention.out", y)
        x = x + experts(w, f"{p}.mlp", rms(w, f"{p}.norm2", x))
    x = linear(w, "logits", rms(w, "norm", x))
    return F.cross_entropy(x.flatten(0, 1), labels.flatten())


# By network of the zoo: as a module, and toy sizes.
NETS = [
    ("rnnlm", rnnlm, [*WORDS, "--set", "layers=2"]),
    ("rnnlm", rnnlm, [*WORDS, "--set", "layers=2", "--set", "pieces=3"]),
    ("rnnlm", rnnlm, [*WORDS, "--set", "layers=2", "--set", "form=cells"]),
    ("rnntc", rnntc, [*WORDS, "--set", "layers=3", "--set", "classes=4", "--set", "pieces=2"]),
    ("rnntc", rnntc, [*WORDS, "--set", "layers=2", "--set", "classes=4", "--set", "form=cells"]),
    ("nmt", nmt, [*WORDS, "--set", "layers=2", "--set", "pieces=2"]),
    ("nmt", nmt, [*WORDS, "--set", "layers=1", "--set", "form=cells"]),
    # 4 slots for each of 3 experts: some places get one expert, some none
    *(("moe", moe, ["--batch", "4", "--set", "layers=2", "--set", "width=24", "--set", "heads=4",
                  "--set", "key_heads=2", "--set", "hidden=10", "--set", "sequence=7",
                  "--set", "vocabulary=23", "--set", "experts=3", "--set", "capacity=80", "--set", f"dispatch={d}"])
      for d in ("index", "ones")),
    ("dlrm", dlrm, ["--batch", "6", "--set", "tables=4", "--set", "rows=9", "--set", "features=5"]),
]
