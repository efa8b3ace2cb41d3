#!/usr/bin/env python3
"""Models of fields and ways to learn that the other benches do not have, as people write them, and of transformers,
exported by ffsoap_torch: loss and gradients of one training step of ffrun beside PyTorch's own.

usage: bench/torch_fields.py FFRUN [NAME...]    prints a table in Markdown

Needs PyTorch 2.11 or newer, torchvision, transformers and diffusers.  SPDX-License-Identifier: Apache-2.0
"""
import torch_more as more  # finds tests/torch
import field_modules
import learning_modules
import shape_modules
import transformers as hf
from exported import torch
from torch_libraries import BATCH, VIT, ids, pictures
from torch_today import Told


def spoken():
    """wav2vec 2.0 with CTC: labels of -100 do not count."""
    config = hf.Wav2Vec2Config(**{**more.SPOKEN, "pad_token_id": more.WORDS - 1, "ctc_zero_infinity": True})
    return Told(hf.Wav2Vec2ForCTC(config), "input_values", "labels"), (pictures(400), ids(4)), {}


def spectrogram():
    config = hf.ASTConfig(**VIT, patch_size=8, num_mel_bins=16, max_length=32, frequency_stride=8, time_stride=8,
                          num_labels=5)
    return Told(hf.ASTForAudioClassification(config), "input_values", "labels"), (
        pictures(32, 16), torch.randint(5, (BATCH,))), {}


def heard(family, **sizes):
    make, config = getattr(hf, family + "ForSequenceClassification"), getattr(hf, family + "Config")
    return lambda: (more.Heard(make(config(**{**more.SPOKEN, **sizes}))), (pictures(400), torch.randint(5, (BATCH,))),
                    {})


MODELS = {
    **field_modules.MODELS, **learning_modules.MODELS, **shape_modules.MODELS,
    "wav2vec 2.0, CTC": spoken, "AST": spectrogram, "WavLM": heard("WavLM", num_buckets=8, max_bucket_distance=16),
    "wav2vec 2.0, conformer": heard("Wav2Vec2Conformer", conv_depthwise_kernel_size=3),
    **field_modules.REFUSED, **learning_modules.REFUSED, **shape_modules.REFUSED}


if __name__ == "__main__":
    more.main(MODELS)
