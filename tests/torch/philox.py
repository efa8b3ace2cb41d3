# Random numbers as ffrun draws them: Philox4x32-10 of Salmon et al., SC 2011.
# SPDX-License-Identifier: Apache-2.0
from pytorch import np, torch


def philox(key, hi, lo):
    """Words [4, n] for 64-bit counter halves `hi` and `lo`, arrays or numbers."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    lo, hi = np.broadcast_arrays(np.asarray(lo, np.uint64), np.asarray(hi, np.uint64))
    x = [lo & low, lo >> half, hi & low, hi >> half]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> half) ^ x[1] ^ np.uint64(k[0]), b & low,
             (a >> half) ^ x[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(x)


def philox_words(seed, stream, n):
    """Elements 0 .. n - 1 of a stream: lane i % 4 of counter i / 4."""
    counters = np.arange((n + 3) // 4, dtype=np.uint64)
    return philox(seed, stream, counters).T.reshape(-1)[:n]


def stream(a, b):
    return a << 32 | b


def kept(seed, node, step, shape, p):
    """Which elements dropout keeps: row-major, uniform numbers of 24 bits."""
    words = philox_words(seed, stream(node, step), int(np.prod(shape)))
    uniform = (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0 ** -24)
    return torch.from_numpy((uniform >= np.float32(p)).reshape(shape))


class Shuffle:
    """The order of a training set in an epoch: Fisher and Yates, with Lemire's
    unbiased numbers from a stream of the epoch's own."""

    def __init__(self, samples, seed):
        self.samples, self.seed = samples, seed

    def order(self, epoch):
        words = philox_words(self.seed, stream(0xFFFFFFFE, 0) + epoch, 4 * self.samples + 64)
        next_word = iter(int(w) for w in words)
        order = list(range(self.samples))
        for n in range(self.samples, 1, -1):
            product = next(next_word) * n
            while product % 2 ** 32 < n and product % 2 ** 32 < (2 ** 32 - n) % n:
                product = next(next_word) * n
            k = product >> 32
            order[n - 1], order[k] = order[k], order[n - 1]
        return order

    def batch(self, step, size):
        """Samples of a step; what fills no batch is left out of an epoch."""
        steps = self.samples // size
        at = step % steps * size
        return self.order(step // steps)[at:at + size]
