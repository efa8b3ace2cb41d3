#!/usr/bin/env python3
"""More models of torchvision, transformers and diffusers, and ones that people write by hand, exported by ffsoap_torch:
loss and gradients of one training step of ffrun beside PyTorch's own.

usage: bench/torch_more.py FFRUN [NAME...]    prints a table in Markdown

Needs PyTorch 2.11 or newer, torchvision, transformers and diffusers.  SPDX-License-Identifier: Apache-2.0
"""
import functools
import os
import sys
import warnings

import diffusers
import torch_libraries as of
import torchvision.models as zoo
import transformers as hf
from exported import F, torch
from torch_libraries import (BATCH, PLAIN, SHARED, VIT, WORDS, Denoised, Given, decoder, encoder, ids, images, ones,
                             pictures, words)

nn = torch.nn


# ---- torchvision ----

class Classified(nn.Module):
    """Cross entropy of the (first) output, pixels' where it has some."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        for m in model.modules():
            if isinstance(m, nn.Dropout):
                m.p = 0.0
            if type(m).__name__ == "StochasticDepth":
                m.p = 0.0

    def forward(self, x, labels):
        y = self.model(x)
        return F.cross_entropy(y["out"] if isinstance(y, dict) else y, labels)


def vision(make, *shape, pixels=False, **options):
    def made():
        labels = torch.randint(5, (BATCH, *shape[1:]) if pixels else (BATCH,))
        return Classified(functools.reduce(getattr, make.split("."), zoo)(num_classes=5, **options)), (
            pictures(*shape), labels), {}
    return made


def segmented(make):
    return vision("segmentation." + make, 3, 64, 64, pixels=True, weights_backbone=None)


def mvit():
    """Two blocks of MViT v2, the second with pooled queries."""
    block = zoo.video.mvit.MSBlockConfig
    model = zoo.video.MViT(spatial_size=(32, 32), temporal_size=4, num_classes=5, residual_pool=True,
                           residual_with_cls_embed=False, rel_pos_embed=True, proj_after_attn=True,
                           stochastic_depth_prob=0.0, block_setting=[
                               block(1, 16, 16, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 2, 2]),
                               block(2, 16, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1])])
    return Classified(model), (pictures(3, 4, 32, 32), torch.randint(5, (BATCH,))), {}


# ---- transformers ----

class Heard(nn.Module):
    """wav2vec 2.0 that tells what a sound is."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        return F.cross_entropy(self.model(x).logits, labels)


BART = {"vocab_size": WORDS, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 32,
        "dropout": 0, "attention_dropout": 0, "decoder_start_token_id": 2, "forced_eos_token_id": None}
GPT = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 32, "resid_pdrop": 0,
       "embd_pdrop": 0, "attn_pdrop": 0, "bos_token_id": 1, "eos_token_id": 1}
SPOKEN = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
          "intermediate_size": 64, "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2),
          "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2,
          "hidden_dropout": 0, "attention_dropout": 0, "activation_dropout": 0, "feat_proj_dropout": 0,
          "final_dropout": 0, "layerdrop": 0, "mask_time_prob": 0, "mask_feature_prob": 0, "num_labels": 5,
          "classifier_proj_size": 16}


def translator(family, **sizes):
    make, config = getattr(hf, family + "ForConditionalGeneration"), getattr(hf, family + "Config")
    return lambda: (Given(make(config(**{**BART, **sizes})), "input_ids", "decoder_input_ids", use_cache=False),
                    (ids(), ids(7), ids(7)), {})


class Pairs(nn.Module):
    """CLIP's two towers; each text tells whether it fits its image, as in SigLIP."""

    def __init__(self):
        super().__init__()
        sizes = {k: v for k, v in PLAIN.items() if not k.startswith(("hidden_drop", "attention_probs"))}
        self.model = hf.CLIPModel(hf.CLIPConfig(
            text_config={**sizes, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "projection_dim": 16},
            vision_config={**VIT, "image_size": 32, "patch_size": 8, "projection_dim": 16}, projection_dim=16))

    def forward(self, x, text, fits):
        x = self.model.visual_projection(self.model.vision_model(x).pooler_output)
        y = self.model.text_model(text).last_hidden_state[:, -1]
        y = self.model.text_projection(y)
        return F.binary_cross_entropy_with_logits((F.normalize(x, dim=-1) * F.normalize(y, dim=-1)).sum(-1), fits)


# ---- by hand ----

class Attended(nn.Module):
    """An LSTM that translates, looking back at what it read."""

    def __init__(self, width=24):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.reads = nn.LSTM(width, width, 2, batch_first=True)
        self.writes = nn.LSTM(width, width, 2, batch_first=True)
        self.mixes, self.head = nn.Linear(2 * width, width), nn.Linear(width, WORDS)

    def forward(self, source, target, following):
        memory, state = self.reads(self.source(source))
        y, _ = self.writes(self.target(target), state)
        scores = torch.bmm(y, memory.transpose(1, 2)).masked_fill((source == 0)[:, None], float("-inf"))
        y = torch.tanh(self.mixes(torch.cat([y, torch.bmm(scores.softmax(-1), memory)], -1)))
        return F.cross_entropy(self.head(y).transpose(1, 2), following, ignore_index=0, label_smoothing=0.1)


class Temporal(nn.Module):
    """A TCN: causal convolutions with gaps, cut at the end."""

    def __init__(self, width=16):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(3 if i == 0 else width, width, 3, padding=2 << i, dilation=1 << i)
                                   for i in range(3))
        self.skip, self.head = nn.Conv1d(3, width, 1), nn.Linear(width, 1)

    def forward(self, x, y):
        h = x
        for i, conv in enumerate(self.convs):
            z = conv(h)[..., :-(2 << i)]
            h = F.relu(F.relu(z) + (self.skip(h) if i == 0 else h))
        return F.smooth_l1_loss(self.head(h[..., -1]).squeeze(-1), y)


class Generator(nn.Module):
    """DCGAN's, against a discriminator: the sum of both their losses."""

    def __init__(self, z=8):
        super().__init__()
        self.makes = nn.Sequential(
            nn.ConvTranspose2d(z, 16, 4, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())
        self.tells = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(8, 16, 4, 2, 1),
                                   nn.LeakyReLU(0.2, True), nn.Flatten(), nn.Linear(256, 1))

    def forward(self, z, real):
        made, seen = self.tells(self.makes(z[:, :, None, None])), self.tells(real)
        return F.binary_cross_entropy_with_logits(made, torch.zeros_like(made)) + \
            F.binary_cross_entropy_with_logits(seen, torch.ones_like(seen))


class Hinge(Generator):
    """The same with the hinge loss of GANs."""

    def forward(self, z, real):
        made, seen = self.tells(self.makes(z[:, :, None, None])), self.tells(real)
        return F.relu(1 + made).mean() + F.relu(1 - seen).mean()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.outer = nn.Sequential(nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.ReLU(),
                                   nn.ConvTranspose2d(8, 1, 3, 2, 1, 1), nn.Sigmoid())

    def forward(self, x, target):
        return F.binary_cross_entropy(self.outer(self.inner(x)), target)


class Variational(nn.Module):
    """A VAE that is given its noise."""

    def __init__(self, width=12, z=4):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 2 * z))
        self.outer = nn.Sequential(nn.Linear(z, 16), nn.ReLU(), nn.Linear(16, width))

    def forward(self, x, noise):
        mean, logvar = self.inner(x).chunk(2, -1)
        y = self.outer(mean + noise * (0.5 * logvar).exp())
        kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(-1)
        return F.mse_loss(y, x) + 0.1 * kl.mean()


class Towers(nn.Module):
    """Users and things, and whether the one wants the other."""

    def __init__(self, width=16):
        super().__init__()
        self.user, self.thing = nn.Embedding(40, width), nn.Embedding(50, width)
        self.history = nn.EmbeddingBag(50, width, mode="mean")
        self.left = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, width))
        self.right = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))

    def forward(self, user, seen, thing, wants):
        a = self.left(torch.cat([self.user(user), self.history(seen)], -1))
        scores = F.cosine_similarity(a, self.right(self.thing(thing))) / 0.1
        return F.binary_cross_entropy_with_logits(scores, wants, pos_weight=torch.tensor(3.0))


class Graphs(nn.Module):
    """A graph convolution network of a fixed graph, then attention along its edges."""

    def __init__(self, nodes=12, width=8):
        super().__init__()
        edges = (torch.rand(nodes, nodes) < 0.3) | torch.eye(nodes, dtype=torch.bool)
        self.register_buffer("edges", edges)
        self.register_buffer("among", edges / edges.sum(1, keepdim=True))
        self.first, self.second, self.head = nn.Linear(4, width), nn.Linear(width, width), nn.Linear(width, 5)
        self.left, self.right = nn.Linear(width, 1, bias=False), nn.Linear(width, 1, bias=False)

    def forward(self, x, labels):
        x = F.relu(self.among @ self.first(x))
        x = self.second(x)
        scores = F.leaky_relu(self.left(x) + self.right(x).transpose(1, 2), 0.2)
        scores = scores.masked_fill(~self.edges, float("-inf")).softmax(-1)
        return F.cross_entropy(self.head(F.elu(scores @ x)).flatten(0, 1), labels.flatten())


class Siamese(nn.Module):
    """Two images by one network: near if they are alike, else at least a margin apart."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(392, 8))

    def forward(self, a, b, alike):
        apart = F.pairwise_distance(self.net(a), self.net(b))
        return (alike * apart.pow(2) + (1 - alike) * F.relu(4.0 - apart).pow(2)).mean()


class Triplet(Siamese):
    def forward(self, a, b, c):
        return F.triplet_margin_loss(self.net(a), self.net(b), self.net(c), margin=1.0)


class Tasks(nn.Module):
    """Two tasks, whose losses are weighed by what is learned (Kendall)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())
        self.classes, self.number, self.share = nn.Linear(32, 5), nn.Linear(32, 1), 0.3

    def forward(self, x, label, y):
        x = self.body(x)
        return F.cross_entropy(self.classes(x), label, weight=torch.tensor([1.0, 2.0, 1.0, 0.5, 1.0])) + \
            self.share * F.mse_loss(self.number(x).squeeze(-1), y)


class Distilled(nn.Module):
    """A student of a teacher's logits, and of labels."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 5))

    def forward(self, x, teacher, label):
        y = self.net(x)
        soft = F.kl_div(F.log_softmax(y / 2, -1), F.softmax(teacher / 2, -1), reduction="batchmean") * 4
        return 0.5 * soft + 0.5 * F.cross_entropy(y, label)


class Focal(nn.Module):
    """RetinaNet's loss."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))

    def forward(self, x, target):
        y = self.net(x)
        p, each = y.sigmoid(), F.binary_cross_entropy_with_logits(y, target, reduction="none")
        at = p * target + (1 - p) * (1 - target)
        return ((0.25 * target + 0.75 * (1 - target)) * (1 - at) ** 2 * each).mean()


class Masked(nn.Module):
    """A language model that is trained where the mask says so."""

    def __init__(self, width=16):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.layer = nn.TransformerEncoderLayer(width, 4, 32, 0.0, batch_first=True, norm_first=True)

    def forward(self, x, labels, mask):
        y = self.head(self.layer(self.words(x)))
        each = F.cross_entropy(y.transpose(1, 2), labels, reduction="none")
        return ((each * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()


class Mesh(nn.Module):
    """MeshGraphNets: messages along a mesh's edges, added up where they go."""

    def __init__(self, nodes=10, edges=24, width=8):
        super().__init__()
        g = torch.Generator().manual_seed(1)
        self.register_buffer("src", torch.randint(nodes, (edges,), generator=g))
        self.register_buffer("dst", torch.randint(nodes, (edges,), generator=g))
        self.inner, self.outer = nn.Linear(3, width), nn.Linear(width, 2)
        self.tells = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, width), nn.LayerNorm(width))
        self.learns = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, width), nn.LayerNorm(width))

    def forward(self, x, y):
        h = self.inner(x)
        for _ in range(2):
            m = self.tells(torch.cat([h[:, self.src], h[:, self.dst]], -1))
            h = h + self.learns(torch.cat([h, torch.zeros_like(h).index_add(1, self.dst, m)], -1))
        return F.mse_loss(self.outer(h), y)


class Experts(nn.Module):
    """A language model whose tokens choose two of four experts, weighed by the chosen ones' softmax."""

    def __init__(self, width=16, experts=4, choices=2):
        super().__init__()
        self.words, self.head, self.choices = nn.Embedding(WORDS, width), nn.Linear(width, WORDS), choices
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
                                     for _ in range(experts))

    def weights(self, x):
        """Of all experts, zero for those that were not chosen."""
        scores = self.gate(x)
        top, at = scores.topk(self.choices, -1)
        return torch.full_like(scores, float("-inf")).scatter(-1, at, top).softmax(-1)

    def forward(self, x, labels):
        x = self.words(x)
        weights = self.weights(x)
        x = x + sum(weights[..., i, None] * e(x) for i, e in enumerate(self.experts))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Scattered(Experts):
    """The probabilities of those chosen, made to sum to one."""

    def weights(self, x):
        p = self.gate(x).softmax(-1)
        top, at = p.topk(self.choices, -1)
        return torch.zeros_like(p).scatter(-1, at, top / top.sum(-1, keepdim=True))


class OneHot(Experts):
    def weights(self, x):
        p = self.gate(x).softmax(-1)
        top, at = torch.topk(p, self.choices)
        return (F.one_hot(at, p.shape[-1]) * top[..., None]).sum(-2)


class Switch(Experts):
    """The best expert alone (Fedus et al.)."""

    def weights(self, x):
        p = self.gate(x).softmax(-1)
        top, at = p.max(-1)
        return F.one_hot(at, p.shape[-1]) * top[..., None]


class Looped(Experts):
    """Each expert is asked about the tokens that chose it."""

    def forward(self, x, labels):
        x = self.words(x)
        flat = x.view(-1, x.shape[-1])
        top, at = self.gate(flat).softmax(-1).topk(self.choices, -1)
        top = top / top.sum(-1, keepdim=True)
        y = torch.zeros_like(flat)
        for i, e in enumerate(self.experts):
            row, which = torch.where(at == i)
            y[row] += top[row, which, None] * e(flat[row])
        return F.cross_entropy(self.head(x + y.view_as(x)).flatten(0, 1), labels.flatten())


class Thresholds(nn.Module):
    """Conditions on what is computed: a tree that is soft, a clamp by a tensor, a loss that changes its shape."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, y):
        h = self.a(x)
        h = torch.where(h > 0.1, self.b(h), self.c(h))
        h = torch.minimum(torch.maximum(h, x - 1), x + 1)
        apart = (h - y).abs()
        return torch.where(apart < 0.5, apart.pow(2), apart - 0.25).mean()


def lm(make):
    return lambda: (make(), (ids(), ids()), {})


MODELS = {
    "convnext_small": vision("convnext_small", 3, 64, 64), "efficientnet_b3": vision("efficientnet_b3", 3, 64, 64),
    "regnet_x_400mf": vision("regnet_x_400mf", 3, 64, 64), "mobilenet_v3_large": vision("mobilenet_v3_large", 3, 64, 64),
    "shufflenet_v2_x0_5": vision("shufflenet_v2_x0_5", 3, 64, 64), "mnasnet0_5": vision("mnasnet0_5", 3, 64, 64),
    "vit": vision("VisionTransformer", 3, 64, 64, image_size=64, patch_size=16, num_layers=2, num_heads=4,
                  hidden_dim=32, mlp_dim=64),
    "fcn_resnet50": segmented("fcn_resnet50"), "deeplabv3_resnet50": segmented("deeplabv3_resnet50"),
    "lraspp_mobilenet_v3_large": segmented("lraspp_mobilenet_v3_large"),
    "r3d_18": vision("video.r3d_18", 3, 4, 32, 32), "mc3_18": vision("video.mc3_18", 3, 4, 32, 32),
    "r2plus1d_18": vision("video.r2plus1d_18", 3, 4, 32, 32), "s3d": vision("video.s3d", 3, 16, 64, 64),
    "mvit_v2": mvit,
    "swin3d": vision("video.SwinTransformer3d", 3, 4, 32, 32, patch_size=[2, 4, 4], embed_dim=16, depths=[2, 2],
                     num_heads=[2, 4], window_size=[2, 4, 4], stochastic_depth_prob=0.0),
    "Qwen2": decoder("Qwen2"), "Gemma": decoder("Gemma", head_dim=8), "Gemma 2": decoder(
        "Gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=4),
    "MPT": lambda: words(hf.MptForCausalLM(hf.MptConfig(vocab_size=WORDS, d_model=32, n_heads=4, n_layers=1,
                                                        max_seq_len=32)), use_cache=False),
    "GPT-NeoX": decoder("GPTNeoX", hidden_dropout=0.0), "OPT": decoder("OPT", ffn_dim=64, dropout=0.0,
                                                                       word_embed_proj_dim=32, pad_token_id=1),
    "GPT-J": lambda: words(hf.GPTJForCausalLM(hf.GPTJConfig(**GPT, rotary_dim=4)), use_cache=False),
    "GPT-Neo": lambda: words(hf.GPTNeoForCausalLM(hf.GPTNeoConfig(
        vocab_size=WORDS, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
        max_position_embeddings=32, window_size=4, resid_dropout=0, embed_dropout=0, attention_dropout=0)),
        use_cache=False),
    "StarCoder2": decoder("Starcoder2"), "Granite": decoder("Granite"), "Cohere": decoder("Cohere"),
    "StableLM": decoder("StableLm"), "GLM-4": decoder("Glm4", head_dim=8), "OLMo": decoder("Olmo"),
    "GPT-OSS": decoder("GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4,
                       num_hidden_layers=2),
    "Qwen2-MoE": decoder("Qwen2Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                         shared_expert_intermediate_size=32),
    "DeepSeek-V3": decoder("DeepseekV3", **{**of.LATENT, "first_k_dense_replace": 0}, n_routed_experts=4,
                           num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=32),
    "OLMoE": decoder("Olmoe", num_experts=4, num_experts_per_tok=2),
    "BART": translator("Bart"), "mBART": translator("MBart"), "Pegasus": translator("Pegasus"),
    "Marian": lambda: (Given(hf.MarianMTModel(hf.MarianConfig(**{**BART, "pad_token_id": 0})), "input_ids",
                             "decoder_input_ids", use_cache=False), (ids(), ids(7), ids(7)), {}),
    "Blenderbot": translator("Blenderbot"), "ALBERT": encoder("Albert", embedding_size=16),
    "ELECTRA": encoder("Electra", embedding_size=16), "MobileBERT": encoder(
        "MobileBert", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    "DistilBERT": lambda: words(hf.DistilBertForMaskedLM(hf.DistilBertConfig(
        vocab_size=WORDS, dim=32, n_layers=1, n_heads=4, hidden_dim=64, max_position_embeddings=32, dropout=0,
        attention_dropout=0))),
    "MPNet": encoder("MPNet", pad_token_id=1, max_position_embeddings=40), "XLM-R": encoder(
        "XLMRoberta", pad_token_id=1, max_position_embeddings=40),
    "FNet": encoder("FNet"), "ConvBERT": encoder("ConvBert", embedding_size=32, head_ratio=2, conv_kernel_size=3),
    "DeiT": images("DeiT", **VIT, patch_size=8), "BEiT": images("Beit", **VIT, patch_size=8),
    "SwinV2, of transformers": images("Swinv2", patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4],
                                      window_size=4, drop_path_rate=0),
    "PoolFormer": images("PoolFormer", hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], drop_path_rate=0),
    "PVT": images("Pvt", hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2],
                  drop_path_rate=0, hidden_dropout_prob=0, attention_probs_dropout_prob=0),
    "SegFormer": lambda: (Given(hf.SegformerForImageClassification(hf.SegformerConfig(
        hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2], drop_path_rate=0,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, classifier_dropout_prob=0, num_labels=5)),
        "pixel_values"), (pictures(3, 32, 32), torch.randint(5, (BATCH,))), {}),
    "ConvNeXt V2": images("ConvNextV2", hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], drop_path_rate=0),
    "CLIP": lambda: (Pairs(), (pictures(3, 32, 32), ids(), torch.rand(BATCH)), {}),
    "wav2vec 2.0": lambda: (Heard(hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**SPOKEN))),
                            (pictures(400), torch.randint(5, (BATCH,))), {}),
    "HuBERT": lambda: (Heard(hf.HubertForSequenceClassification(hf.HubertConfig(**SPOKEN))),
                       (pictures(400), torch.randint(5, (BATCH,))), {}),
    "DiT": lambda: (Denoised(diffusers.DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=1, sample_size=8,
        patch_size=2, num_embeds_ada_norm=1000, dropout=0.0), "hidden_states", "timestep", "class_labels"),
        (pictures(4, 8, 8), torch.randint(1000, (BATCH,)), torch.randint(1000, (BATCH,)), pictures(4, 8, 8)),
        {"below": {"inputs_1": 1000, "inputs_2": 1000}}),
    "VQ-free autoencoder": lambda: (Denoised(diffusers.AutoencoderTiny(
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1), upsampling_scaling_factor=2), "sample"),
        (pictures(3, 16, 16), pictures(3, 16, 16)), {}),
    "autoencoder of Stable Diffusion": lambda: (Denoised(diffusers.AutoencoderKL(
        block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4, latent_channels=4, sample_size=16), "sample"),
        (pictures(3, 16, 16), pictures(3, 16, 16)), {}),
    "LSTM with attention": lambda: (Attended(), (ids(9), ids(7), ids(7)), {}),
    "TCN": lambda: (Temporal(), (pictures(3, 20), torch.randn(BATCH)), {}),
    "GAN": lambda: (Generator(), (pictures(8), pictures(3, 16, 16)), {}),
    "GAN, hinge": lambda: (Hinge(), (pictures(8), pictures(3, 16, 16)), {}),
    "autoencoder": lambda: (Autoencoder(), (pictures(1, 16, 16), torch.rand(BATCH, 1, 16, 16)), {}),
    "VAE": lambda: (Variational(), (pictures(12), pictures(4)), {}),
    "two towers": lambda: (Towers(), (torch.randint(40, (BATCH,)), torch.randint(50, (BATCH, 6)),
                                      torch.randint(50, (BATCH,)), torch.rand(BATCH)), {}),
    "graph attention": lambda: (Graphs(), (pictures(12, 4), torch.randint(5, (BATCH, 12))), {}),
    "mesh": lambda: (Mesh(), (pictures(10, 3), pictures(10, 2)), {}),
    "siamese": lambda: (Siamese(), (pictures(1, 16, 16), pictures(1, 16, 16), torch.rand(BATCH).round()), {}),
    "triplets": lambda: (Triplet(), (pictures(1, 16, 16), pictures(1, 16, 16), pictures(1, 16, 16)), {}),
    "two tasks": lambda: (Tasks(), (pictures(10), torch.randint(5, (BATCH,)), torch.randn(BATCH)), {}),
    "distillation": lambda: (Distilled(), (pictures(10), pictures(5), torch.randint(5, (BATCH,))), {}),
    "focal loss": lambda: (Focal(), (pictures(3, 8, 8), torch.rand(BATCH, 4, 8, 8).round()), {}),
    "masked places": lambda: (Masked(), (ids(), ids(), torch.rand(BATCH, 10).round()), {}),
    "conditions": lambda: (Thresholds(), (pictures(8), pictures(8)), {}),
    "experts, softmax of two": lm(Experts), "experts, scattered": lm(Scattered), "experts, one-hot": lm(OneHot),
    "experts, the best": lm(Switch), "experts, a loop": lm(Looped)}


def main():
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(MODELS):
        sys.exit(f"usage: torch_more.py FFRUN [NAME...], where NAME is one of {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print("| model | one step as PyTorch's |\n|---|---|", flush=True)
    good = 0
    for name in sys.argv[2:] or MODELS:
        try:
            said = of.row(os.path.abspath(sys.argv[1]), name, MODELS)
        except Exception as why:  # the table goes on
            said = f"no: {type(why).__name__}: {str(why)[:300]}"
        good += said.startswith("yes")
        print(f"| {name} | {said} |", flush=True)
    print(f"\n{good} of {len(sys.argv[2:] or MODELS)}: loss and gradients as PyTorch's {torch.__version__}")


if __name__ == "__main__":
    main()
