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
import torch_libraries as of  # finds tests/torch
import hand_modules
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


MODELS = {
    "convnext_small": vision("convnext_small", 3, 64, 64), "efficientnet_b3": vision("efficientnet_b3", 3, 64, 64),
    "regnet_x_400mf": vision("regnet_x_400mf", 3, 64, 64),
    "mobilenet_v3_large": vision("mobilenet_v3_large", 3, 64, 64),
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
    **hand_modules.MODELS}


def main(models):
    """The table of the program that was started."""
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(models):
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} FFRUN [NAME...], where NAME is one of {', '.join(models)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print("| model | one step as PyTorch's |\n|---|---|", flush=True)
    good = 0
    for name in sys.argv[2:] or models:
        try:
            said = of.row(os.path.abspath(sys.argv[1]), name, models)
        except Exception as why:  # the table goes on
            said = f"no: {type(why).__name__}: {str(why)[:300]}"
        good += said.startswith("yes")
        print(f"| {name} | {said} |", flush=True)
    print(f"\n{good} of {len(sys.argv[2:] or models)}: loss and gradients as PyTorch's {torch.__version__}")


if __name__ == "__main__":
    main(MODELS)
