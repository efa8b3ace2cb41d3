# The zoo's networks of words and of ids as PyTorch's own modules have them: of inputs and weights by the
# graph's names the loss.  SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F

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
    return F.cross_entropy(linear(w, "click", layers("top", torch.cat([x, pairs], 1))), labels)


# By network of the zoo: as a module, and toy sizes.
NETS = [
    ("rnnlm", rnnlm, [*WORDS, "--set", "layers=2"]),
    ("rnnlm", rnnlm, [*WORDS, "--set", "layers=2", "--set", "pieces=3"]),
    ("rnnlm", rnnlm, [*WORDS, "--set", "layers=2", "--set", "form=cells"]),
    ("rnntc", rnntc, [*WORDS, "--set", "layers=3", "--set", "classes=4", "--set", "pieces=2"]),
    ("rnntc", rnntc, [*WORDS, "--set", "layers=2", "--set", "classes=4", "--set", "form=cells"]),
    ("nmt", nmt, [*WORDS, "--set", "layers=2", "--set", "pieces=2"]),
    ("nmt", nmt, [*WORDS, "--set", "layers=1", "--set", "form=cells"]),
    ("dlrm", dlrm, ["--batch", "6", "--set", "tables=4", "--set", "rows=9", "--set", "features=5"]),
]
