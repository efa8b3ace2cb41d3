#!/usr/bin/env python3
"""Models as they are written today, by hand and in torchvision, transformers and diffusers, that the other benches do
not have, exported by ffsoap_torch: loss and gradients of one training step of ffrun beside PyTorch's own.

usage: bench/torch_today.py FFRUN [NAME...]    prints a table in Markdown

Needs PyTorch 2.11 or newer, torchvision, transformers and diffusers.  SPDX-License-Identifier: Apache-2.0
"""
import diffusers
import torch_more as more  # finds tests/torch
import today_modules
import torchvision.models as zoo
import transformers as hf
from exported import F, torch
from torch_libraries import BATCH, PLAIN, VIT, WORDS, Denoised, Given, decoder, encoder, ids, images, pictures
from torchvision.ops import FeaturePyramidNetwork

nn = torch.nn


class Pyramid(nn.Module):
    """What a ResNet sees at three sizes, joined, and a head that all sizes share."""

    def __init__(self):
        super().__init__()
        net = zoo.resnet18(weights=None)
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1)
        self.layers = nn.ModuleList([net.layer2, net.layer3, net.layer4])
        self.join, self.head = FeaturePyramidNetwork([128, 256, 512], 32), nn.Conv2d(32, 5, 3, padding=1)

    def forward(self, x, target):
        x, seen = self.stem(x), {}
        for i, layer in enumerate(self.layers):
            x = seen[str(i)] = layer(x)
        heat = sum(F.interpolate(self.head(y), size=target.shape[-2:]) for y in self.join(seen).values())
        p = heat.sigmoid()
        at = p * target + (1 - p) * (1 - target)
        return ((1 - at) ** 2 * F.binary_cross_entropy_with_logits(heat, target, reduction="none")).mean()


class Told(nn.Module):
    """A model of the transformers package that returns its loss."""

    def __init__(self, model, *names, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), **self.fixed).loss


def labels(long=10):
    return torch.randint(WORDS, (BATCH, long))


def masked_words(family, **sizes):
    """With its own loss."""
    make, config = getattr(hf, family + "ForMaskedLM"), getattr(hf, family + "Config")
    return lambda: (Told(make(config(**{**PLAIN, **sizes})), "input_ids", "labels"), (ids(), labels()), {})


def tagged(family, **sizes):
    make, config = getattr(hf, family + "ForTokenClassification"), getattr(hf, family + "Config")
    return lambda: (Told(make(config(**{**PLAIN, "num_labels": 5, **sizes})), "input_ids", "attention_mask", "labels"),
                    (ids(), torch.ones(BATCH, 10, dtype=torch.long), torch.randint(5, (BATCH, 10))), {})


def series():
    config = hf.PatchTSTConfig(num_input_channels=2, context_length=16, prediction_length=4, patch_length=4,
                               patch_stride=4, d_model=16, num_attention_heads=2, num_hidden_layers=1, ffn_dim=32,
                               attention_dropout=0, ff_dropout=0, positional_dropout=0, path_dropout=0, head_dropout=0,
                               loss="mse", scaling=None)
    return Told(hf.PatchTSTForPrediction(config), "past_values", "future_values"), (
        torch.randn(BATCH, 16, 2), torch.randn(BATCH, 4, 2)), {}


def flux():
    model = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(2, 2, 4))

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, text, pooled, time, aim):
            y = self.model(x, encoder_hidden_states=text, pooled_projections=pooled, timestep=time,
                           img_ids=torch.zeros(16, 3), txt_ids=torch.zeros(5, 3)).sample
            return F.mse_loss(y, aim)
    return Flow(), (torch.randn(BATCH, 16, 4), torch.randn(BATCH, 5, 16), torch.randn(BATCH, 16), torch.rand(BATCH),
                    torch.randn(BATCH, 16, 4)), {}


SPOTS = {**VIT, "image_size": 32, "patch_size": 8}
MODELS = {
    **today_modules.MODELS,
    "feature pyramid": lambda: (Pyramid(), (pictures(3, 64, 64), torch.rand(BATCH, 5, 16, 16).round()), {}),
    "swin_v2": more.vision("swin_transformer.SwinTransformer", 3, 32, 32, patch_size=[2, 2], embed_dim=16,
                           depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], stochastic_depth_prob=0.0,
                           block=zoo.swin_transformer.SwinTransformerBlockV2,
                           downsample_layer=zoo.swin_transformer.PatchMergingV2),
    "maxvit": more.vision("maxvit.MaxVit", 3, 64, 64, input_size=(64, 64), stem_channels=8, partition_size=4,
                          block_channels=[8, 16], block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.0),
    "BERT, its own loss": masked_words("Bert"), "RoFormer": masked_words("RoFormer", embedding_size=32),
    "Longformer": encoder("Longformer", attention_window=4, pad_token_id=1, max_position_embeddings=40),
    "BigBird": encoder("BigBird", attention_type="original_full", pad_token_id=0),
    "Nystromformer": encoder("Nystromformer", num_landmarks=2, segment_means_seq_len=10, conv_kernel_size=3),
    "DeBERTa v3, tags": tagged("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8,
                               share_att_key=True, position_biased_input=False, norm_rel_ebd="layer_norm"),
    "Phi": decoder("Phi", resid_pdrop=0.0), "Persimmon": decoder("Persimmon"), "SmolLM3": decoder("SmolLM3"),
    "Nemotron": decoder("Nemotron"), "Cohere 2": decoder("Cohere2", head_dim=8, sliding_window=4),
    "Granite MoE": decoder("GraniteMoe", num_local_experts=4, num_experts_per_tok=2),
    "SigLIP": lambda: (Given(hf.SiglipForImageClassification(hf.SiglipConfig(vision_config={
        k: v for k, v in SPOTS.items() if "prob" not in k}, num_labels=5)), "pixel_values"),
        (pictures(3, 32, 32), torch.randint(5, (BATCH,))), {}),
    "ViTMSN": images("ViTMSN", **VIT, patch_size=8), "LeViT": images(
        "Levit", hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8],
        patch_size=16, mlp_ratio=[2, 2, 2], attention_ratio=[2, 2, 2], drop_path_rate=0),
    "CvT": images("Cvt", embed_dim=[8, 16, 16], num_heads=[1, 2, 2], depth=[1, 1, 1], drop_path_rate=[0.0, 0.0, 0.0]),
    "MobileViT": images("MobileViT", hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 8, 16, 24, 32, 32],
                        num_attention_heads=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                        classifier_dropout_prob=0),
    "TimeSformer": lambda: (Given(hf.TimesformerForVideoClassification(hf.TimesformerConfig(
        **SPOTS, num_frames=2, num_labels=5, drop_path_rate=0)), "pixel_values"),
        (pictures(2, 3, 32, 32), torch.randint(5, (BATCH,))), {}),
    "VideoMAE": lambda: (Given(hf.VideoMAEForVideoClassification(hf.VideoMAEConfig(
        **SPOTS, num_frames=2, tubelet_size=2, num_labels=5)), "pixel_values"),
        (pictures(2, 3, 32, 32), torch.randint(5, (BATCH,))), {}),
    "PatchTST": series,
    "Flux": flux}


if __name__ == "__main__":
    more.main(MODELS)
