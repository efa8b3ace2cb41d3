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


class Denoising(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = diffusers.UNet2DModel(
            sample_size=16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4, attention_head_dim=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))

    def forward(self, noisy, steps, noise):
        return F.mse_loss(self.model(noisy, steps).sample, noise)


def ids(length=10):
    return torch.randint(WORDS, (BATCH, length))


def ones(length=10):
    return torch.ones(BATCH, length, dtype=torch.long)


def words(model, **fixed):
    return Given(model, "input_ids", **fixed), (ids(), ids()), {}


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
                                                 pictures(3, 16, 16)), {"below": {"steps": 1000}})}


def row(ffrun, name):
    torch.manual_seed(1)
    module, inputs, options = MODELS[name]()
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
