#!/usr/bin/env python3
"""Small models of the transformers and diffusers packages as they come, exported by ffsoap_torch: loss and gradients
of one training step of ffrun beside PyTorch's own.

usage: bench/torch_libraries.py FFRUN [NAME...]    prints a table in Markdown

Needs PyTorch 2.11 or newer, transformers and diffusers.  SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import sys
import warnings

import diffusers
import transformers as hf  # before tests/torch, which has a file of that name

os.environ.setdefault("OMP_NUM_THREADS", "1")
root = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(root / "tests" / "torch"), str(root / "python")]
import exported
from exported import F, torch
from ffsoap_torch import Refused

WORDS, BATCH = 60, 8
SIZES = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
         "intermediate_size": 64, "max_position_embeddings": 32, "pad_token_id": None}
PLAIN = {**SIZES, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
SHARED = {**SIZES, "num_key_value_heads": 2}
T5 = {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "dropout_rate": 0,
      "decoder_start_token_id": 0}
WHISPER = {"vocab_size": WORDS, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 20,
           "max_source_positions": 16, "max_target_positions": 16, "dropout": 0, "pad_token_id": None,
           "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
VIT = {k: v for k, v in PLAIN.items() if k not in ("vocab_size", "max_position_embeddings", "pad_token_id")}


class Given(torch.nn.Module):
    """A model, called by names; its loss is the cross entropy of its logits and the last input."""

    def __init__(self, model, *names, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *inputs):
        y = self.model(**dict(zip(self.names, inputs)), **self.fixed).logits
        return F.cross_entropy(y.flatten(0, -2), inputs[-1].flatten())


class Denoised(torch.nn.Module):
    """A model of diffusion; its loss is the mean squared error of its sample and the last input."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return F.mse_loss(self.model(**dict(zip(self.names, inputs))).sample, inputs[-1])


class Denoising(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = diffusers.UNet2DModel(
            sample_size=16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4, attention_head_dim=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))

    def forward(self, noisy, steps, noise):
        return F.mse_loss(self.model(noisy, steps).sample, noise)


LAYERS = {"layers_per_block": 1, "block_out_channels": (16, 32), "norm_num_groups": 4}
STABLE = {**LAYERS, "sample_size": 16, "attention_head_dim": 8, "cross_attention_dim": 16,
          "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
          "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")}
PATCHES = {"sample_size": 8, "num_layers": 1, "num_attention_heads": 4, "attention_head_dim": 8, "in_channels": 4,
           "out_channels": 4, "patch_size": 2, "joint_attention_dim": 32, "caption_projection_dim": 32,
           "pooled_projection_dim": 16, "pos_embed_max_size": 8}
LATENT = {"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8,
          "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1}  # DeepSeek's attention


def ids(length=10):
    return torch.randint(WORDS, (BATCH, length))


def ones(length=10):
    return torch.ones(BATCH, length, dtype=torch.long)


def words(model, **fixed):
    model.set_experts_implementation("eager")  # PyTorch's sorted one has no float64
    return Given(model, "input_ids", **fixed), (ids(), ids()), {}


def decoder(family, **sizes):
    """A family of decoders, from ids to the next ones."""
    make, sizes = getattr(hf, family + "ForCausalLM"), {**SHARED, **sizes}
    config = getattr(hf, family + ("TextConfig" if family == "Gemma3" else "Config"))
    return lambda: words(make(config(**sizes)), use_cache=False)


def encoder(family, **sizes):
    make, config = getattr(hf, family + "ForMaskedLM"), getattr(hf, family + "Config")
    return lambda: words(make(config(**{**PLAIN, **sizes})))


def images(family, **sizes):
    make, config = getattr(hf, family + "ForImageClassification"), getattr(hf, family + "Config")
    return lambda: (Given(make(config(image_size=32, num_labels=5, **sizes)), "pixel_values"),
                    (pictures(3, 32, 32), torch.randint(5, (BATCH,))), {})


def pictures(*shape):
    return torch.randn(BATCH, *shape)


MODELS = {
    "BERT": lambda: words(hf.BertForMaskedLM(hf.BertConfig(**PLAIN))),
    "BERT, padded": lambda: (Given(hf.BertForSequenceClassification(hf.BertConfig(**PLAIN)), "input_ids",
                                   "attention_mask"), (ids(), ones(), torch.randint(2, (BATCH,))), {}),
    "GPT-2": lambda: words(hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=1, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=1, eos_token_id=1)), use_cache=False),
    "LLaMA": lambda: words(hf.LlamaForCausalLM(hf.LlamaConfig(**SHARED)), use_cache=False),
    "Mixtral": lambda: words(hf.MixtralForCausalLM(hf.MixtralConfig(**SHARED, num_local_experts=4)), use_cache=False),
    "T5": lambda: (Given(hf.T5ForConditionalGeneration(hf.T5Config(**T5)), "input_ids", "decoder_input_ids",
                         use_cache=False), (ids(), ids(7), ids(7)), {}),
    "ViT": lambda: (Given(hf.ViTForImageClassification(hf.ViTConfig(**VIT, image_size=32, patch_size=8, num_labels=5)),
                          "pixel_values"), (pictures(3, 32, 32), torch.randint(5, (BATCH,))), {}),
    "Whisper": lambda: (Given(hf.WhisperForConditionalGeneration(hf.WhisperConfig(**WHISPER)), "input_features",
                              "decoder_input_ids", use_cache=False), (pictures(20, 32), ids(7), ids(7)), {}),
    "U-Net of diffusion": lambda: (Denoising(), (pictures(3, 16, 16), torch.randint(1000, (BATCH,)),
                                                 pictures(3, 16, 16)), {"below": {"steps": 1000}}),
    # at least one of each kind that others copy
    "Qwen3": decoder("Qwen3", head_dim=8), "Gemma 3": decoder("Gemma3", head_dim=8, sliding_window=4),
    "Phi-3": decoder("Phi3"), "Mistral": decoder("Mistral", sliding_window=4), "OLMo 2": decoder("Olmo2"),
    "Falcon": decoder("Falcon", bos_token_id=1, eos_token_id=2),
    "Falcon, ALiBi": decoder("Falcon", alibi=True, bos_token_id=1, eos_token_id=2),
    "DeepSeek-V3, dense": decoder("DeepseekV3", **LATENT),
    "BLOOM": decoder("Bloom", n_layer=1, n_head=4, hidden_dropout=0.0),
    "Mamba": decoder("Mamba", state_size=4),
    "Mamba-2": decoder("Mamba2", state_size=4, num_heads=8, head_dim=8, n_groups=2, chunk_size=4),
    "RWKV": decoder("Rwkv", attention_hidden_size=32, num_hidden_layers=2),
    "Qwen3-MoE": decoder("Qwen3Moe", head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32),
    "RoBERTa": encoder("Roberta", pad_token_id=0, max_position_embeddings=40),
    "DeBERTa": encoder("Deberta", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "DeBERTa-v2": encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8,
                          share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False),
    "ModernBERT": encoder("ModernBert", num_hidden_layers=2, local_attention=4, global_attn_every_n_layers=2),
    "DINOv2": images("Dinov2", **VIT, mlp_ratio=2, patch_size=8),
    "Swin, of transformers": images("Swin", patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4,
                                    hidden_dropout_prob=0, drop_path_rate=0),
    "U-Net of Stable Diffusion": lambda: (
        Denoised(diffusers.UNet2DConditionModel(**STABLE), "sample", "timestep", "encoder_hidden_states"),
        (pictures(4, 16, 16), torch.randint(1000, (BATCH,)), pictures(5, 16), pictures(4, 16, 16)),
        {"below": {"inputs_1": 1000}}),
    "transformer of SD3": lambda: (
        Denoised(diffusers.SD3Transformer2DModel(**PATCHES), "hidden_states", "encoder_hidden_states",
                 "pooled_projections", "timestep"),
        (pictures(4, 8, 8), pictures(5, 32), pictures(16), torch.randint(1000, (BATCH,)), pictures(4, 8, 8)),
        {"below": {"inputs_3": 1000}})}


def row(ffrun, name, models=MODELS):
    torch.manual_seed(1)
    module, inputs, options = models[name]()
    try:
        done = exported.Step(ffrun, module, inputs, **options)
    except Refused as why:
        return f"no: {why}"
    if done.why:
        return f"no: {done.why}"
    worst, ours, own, good, count = done.worst(length=True)
    return (f"{'yes' if good else 'no'}: {len(done.map['operators'])} operators, {count} tensors at most {ours:.1g} "
            f"apart ({worst}), PyTorch's float32 {own:.1g}")


def main():
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(MODELS):
        sys.exit(f"usage: torch_libraries.py FFRUN [NAME...], where NAME is one of {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(f"transformers {hf.__version__}, diffusers {diffusers.__version__}, PyTorch {torch.__version__}\n\n"
          "| model | one step as PyTorch's |\n|---|---|", flush=True)
    for name in sys.argv[2:] or MODELS:
        print(f"| {name} | {row(os.path.abspath(sys.argv[1]), name)} |", flush=True)


if __name__ == "__main__":
    main()
