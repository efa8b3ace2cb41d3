#!/usr/bin/env python3
"""Models of timm, transformers and diffusers that the other benches do not have, and ones as people write them by hand
in 2026, exported by ffsoap_torch: loss and gradients of one training step of ffrun beside PyTorch's own.

usage: bench/torch_newest.py FFRUN [NAME...]    prints a table in Markdown

Needs PyTorch 2.11 or newer, torchvision, timm, transformers and diffusers.  SPDX-License-Identifier: Apache-2.0
"""
import diffusers
import timm
import torch_more as more  # finds tests/torch
import newest_modules
import transformers as hf
from exported import torch
from torch_libraries import BATCH, Denoised, Given, decoder, ids, pictures
from torch_today import Told


def seen(make, size=64, **options):
    """A model of timm, in which nothing is drawn."""
    return lambda: (more.Classified(timm.create_model(make, num_classes=5, drop_rate=0.0, **options)),
                    (pictures(3, size, size), torch.randint(5, (BATCH,))), {})


def depth():
    model = hf.SegformerForSemanticSegmentation(hf.SegformerConfig(
        hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2], drop_path_rate=0,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, classifier_dropout_prob=0, num_labels=5,
        decoder_hidden_size=16))
    return Told(model, "pixel_values", "labels"), (pictures(3, 64, 64), torch.randint(5, (BATCH, 64, 64))), {}


def clip():
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    model = hf.CLIPModel(hf.CLIPConfig(
        text_config={**sizes, "vocab_size": 60, "max_position_embeddings": 32, "pad_token_id": 1, "bos_token_id": 0,
                     "eos_token_id": 2}, vision_config={**sizes, "image_size": 32, "patch_size": 8}, projection_dim=16))
    return Told(model, "input_ids", "pixel_values", return_loss=True), (ids(), pictures(3, 32, 32)), {}


def mixer():
    config = hf.PatchTSMixerConfig(context_length=16, prediction_length=4, patch_length=4, patch_stride=4, d_model=16,
                                   num_input_channels=2, num_layers=1, dropout=0.0, head_dropout=0.0, scaling=None)
    return Told(hf.PatchTSMixerForPrediction(config), "past_values", "future_values"), (
        torch.randn(BATCH, 16, 2), torch.randn(BATCH, 4, 2)), {}


def denoiser(make, given, names, options, **sizes):
    return lambda: (Denoised(getattr(diffusers, make)(**sizes), *names), given(), options)


NEXT = {"num_hidden_layers": 2, "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
        "layer_types": ["linear_attention", "full_attention"]}
MODELS = {
    **newest_modules.MODELS, **newest_modules.REFUSED,
    "timm: xcit": seen("xcit_nano_12_p16_224", img_size=64, depth=2, embed_dim=32),
    "timm: cait": seen("cait_xxs24_224", img_size=64, depth=2, embed_dim=32, num_heads=4),
    "timm: davit": seen("davit_tiny", depths=(1, 1), embed_dims=(16, 32), num_heads=(2, 4)),
    "timm: coatnet": seen("coatnet_nano_rw_224", img_size=64),
    "timm: hiera": seen("hiera_tiny_224", img_size=(64, 64), embed_dim=16, num_heads=1, stages=(1, 1, 1, 1)),
    "timm: nfnet": seen("nf_resnet26"), "timm: resnest": seen("resnest14d"), "timm: res2net": seen("res2net50_26w_4s"),
    "timm: ghostnet v2": seen("ghostnetv2_100"), "timm: mobilenet v4": seen("mobilenetv4_conv_small"),
    "timm: fastvit": seen("fastvit_t8"), "timm: repvit": seen("repvit_m0_9"),
    "timm: eva02": seen("eva02_tiny_patch14_224", size=56, img_size=56, depth=2, embed_dim=32, num_heads=2),
    "timm: pvt v2": seen("pvt_v2_b0"), "timm: edgenext": seen("edgenext_xx_small"),
    "Qwen3-Next": decoder("Qwen3Next", **NEXT),
    "RWKV": decoder("Rwkv", attention_hidden_size=32, num_hidden_layers=2), "RecurrentGemma": decoder(
        "RecurrentGemma", num_hidden_layers=3, lru_width=32, attention_window_size=8, head_dim=8),
    "LFM2": decoder("Lfm2", num_hidden_layers=2, layer_types=["conv", "full_attention"]),
    "Jamba": decoder("Jamba", num_hidden_layers=2, attn_layer_period=2, attn_layer_offset=1, num_experts=2,
                     mamba_d_state=4, use_mamba_kernels=False),
    "xLSTM": decoder("xLSTM", num_heads=2),
    "XLNet": lambda: (Given(hf.XLNetLMHeadModel(hf.XLNetConfig(
        vocab_size=60, d_model=32, n_layer=1, n_head=4, d_inner=64, dropout=0)), "input_ids"), (ids(), ids()), {}),
    "SegFormer, pixels": depth, "CLIP, its own loss": clip, "PatchTSMixer": mixer,
    "PixArt": denoiser("PixArtTransformer2DModel", lambda: (
        pictures(4, 8, 8), pictures(5, 16), torch.randint(1000, (BATCH,)), pictures(4, 8, 8)),
        names=("hidden_states", "encoder_hidden_states", "timestep"), options={"below": {"inputs_2": 1000}},
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=1, sample_size=8,
        patch_size=2, cross_attention_dim=32, caption_channels=16, use_additional_conditions=False),
    "Sana": denoiser("SanaTransformer2DModel", lambda: (
        pictures(4, 8, 8), pictures(5, 16), torch.randint(1000, (BATCH,)), pictures(4, 8, 8)),
        names=("hidden_states", "encoder_hidden_states", "timestep"), options={"below": {"inputs_2": 1000}},
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=1, sample_size=8,
        patch_size=1, num_cross_attention_heads=4, cross_attention_head_dim=8, cross_attention_dim=32,
        caption_channels=16),
    "Wan": denoiser("WanTransformer3DModel", lambda: (
        pictures(4, 2, 8, 8), torch.randint(1000, (BATCH,)), pictures(5, 16), pictures(4, 2, 8, 8)),
        names=("hidden_states", "timestep", "encoder_hidden_states"), options={"below": {"inputs_1": 1000}},
        num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, num_layers=1, text_dim=16,
        freq_dim=16, ffn_dim=32, patch_size=(1, 2, 2), rope_max_seq_len=32),
    "autoencoder, DC": lambda: (Denoised(diffusers.AutoencoderDC(
        latent_channels=4, encoder_block_types="ResBlock", decoder_block_types="ResBlock",
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), encoder_layers_per_block=(1, 1),
        decoder_layers_per_block=(1, 1), encoder_qkv_multiscales=((), ()), decoder_qkv_multiscales=((), ()),
        decoder_norm_types="rms_norm", decoder_act_fns="silu"), "sample"), (pictures(3, 8, 8), pictures(3, 8, 8)), {})}


if __name__ == "__main__":
    more.main(MODELS)
