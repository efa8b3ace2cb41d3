/* Frameworks, row by row.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/framework.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/device_model.h"
#include "ff/nearest.h"

#define MOST 1e6

/* Attention by Triton, numbers in the order of a model's: 1.8 % off of its tutorial's times on A100
 * forward (triton-lang.org, 06-fused-attention: heads of 64, 1,024 to 16,384 places, causal or
 * not); backward takes the mean of what it took there, times forward. */
static const double triton[FF_MODEL_PARAMETERS] = {5, 0.542, 245, 0.5, 4.48, 0, 0};

/* The same by FlashAttention-2, whose backward takes 2.9 times its forward: 2.5 times the products
 * at 63 % of A100's peak, where forward reaches 73 % (Dao, "FlashAttention-2", 2023, abstract). */
static const double flash[FF_MODEL_PARAMETERS] = {5, 0.542, 245, 0.5, 2.9, 0, 0};

/* clang-format off */
#define PYTORCH                                                                                    \
	.hosts.operator_us = 59, .hosts.calls = true, .products = true, .copies = true,            \
	.sums = true, .hands_on = true, .gelus = true, .convolutions.tf32 = true,                  \
	.convolutions.biases = true, .convolutions.taps = true,                                    \
	.passes = 4, .written.rms_norm = {36, 80}, .written.rope = {20, 20}
#define REPLAYED                                                                                   \
	.times = 1.13, .products = true, .copies = true, .sums = true, .hands_on = true,           \
	.interacts = true, .pads = true, .convolutions.tf32 = true, .convolutions.biases = true,   \
	.tf32_products = true, .casts = true, .gradient_passes = 5, .passes = 4
#define EXAMPLES REPLAYED, .hosts.operator_us = 59, .hosts.calls = true
/* clang-format on */

/* Of DeepLearningExamples, DLRM's products of every two vectors are an operation of its own
 * (tensorflow_dot_based_interact, TensorFlow2/Recommendation/DLRM), and what its layers read is
 * padded (_get_bottom_mlp_padding, _get_top_mlp_padding, model.py @ 95b1079).  For MLPerf MxNet
 * replays steps as CUDA graphs (MXNET_ENABLE_CUDA_GRAPHS, mlcommons/training_results_v3.0 @
 * 9f08e30, NVIDIA/benchmarks/resnet/implementations/mxnet/config_DGXA100_common.sh), whose
 * convolutions sum up what batch norms need of what they make (resnet-v1b-stats-fl,
 * config_DGXA100.sh of _v2.0 @ a6ae3e1; NormConvolution, symbols/resnet-v1b-mainloop-fl.py of _v2.1
 * @ 9b4d2df). XLA writes batch norms out as sums and what is done element by element
 * (xla/service/batchnorm_expander.cc), and fuses that with what is added and cut off.  In 16 bits
 * TensorFlow keeps in float32 what takes means and powers, and what is added to that (Mean, Pow,
 * tensorflow/core/grappler/optimizers/auto_mixed_precision_lists.h).  Without XLA its layer norms
 * take means, squares and products one by one (tf.contrib.layers.layer_norm, nn.moments and
 * nn.batch_normalization), and gelu powers and tanh (BERT's modeling.py).
 * Of Megatron-LM, scaled, masked and softmax are one kernel (megatron/fused_kernels), dropout and
 * the sum that reads it another (bias_dropout_add_fused_train, megatron/model/transformer.py), and
 * hosts synchronize behind each message (p2p_communication.py), and with their devices when a timer
 * starts or stops (_Timer, megatron/global_vars.py @ 00ac56a), as around each pass of a micro-batch
 * (forward_step and backward_step, megatron/schedules.py); DeepSpeed sums gradients in float16.
 * Later, Megatron-LM's attention is cuDNN's (Transformer Engine), which also sums gradients of
 * biases where it multiplies; products add to gradients (gradient_accumulation_fusion), and what
 * is gathered for them or scattered behind them goes beside (ub_tp_comm_overlap); gradients are
 * summed in bfloat16 (grad_sync_dtype, NVIDIA/dgxc-benchmarking @ 35a9aec,
 * nemo_megatron/gpt3_175b_hydra.yaml). Of PyTorch, a norm by the root mean square casts to float32,
 * squares, takes the mean, multiplies by the root, casts back and multiplies by the weight, and a
 * rotation casts, multiplies complex numbers and casts back (meta-llama/llama @ 8fac8be,
 * llama/model.py: RMSNorm, apply_rotary_emb).
 * It adds a convolution's bias by a call of its own (cudnn_convolution_add_bias_,
 * aten/src/ATen/native/cudnn/Conv.cpp), as TensorFlow does (BiasAdd); XLA fuses that.  Of groups of
 * one channel a block of threads sums up one tap of a filter's gradient
 * (conv_depthwise2d_grad_weight_kernel, aten/src/ATen/native/cuda/DepthwiseConv2d.cu).
 * Autocast takes layer norms, softmax and losses in float32 (pytorch/pytorch @ 0137a5f,
 * docs/source/amp.rst, "CUDA Ops that can autocast to float32"), so that sums of these, which take
 * the wider type, are, too.  Hosts of that kind divide gradients by the scale, clip them, and
 * update by a kernel an operation: 21 passes over memory, where one kernel has seven
 * (huggingface/transformers @ ad1fc96, src/transformers/optimization.py, AdamW.step).  Inductor
 * writes a loss as two loops over 16 bits, and sums with the norm that reads them, as it fuses what
 * saves most traffic (torch/_inductor/scheduler.py, Scheduler.score_fusion_memory).
 * OneFlow runs a graph that was compiled before, whose loss is one operator
 * (sparse_softmax_cross_entropy, Oneflow-Inc/libai, libai/layers/cross_entropy.py); else its layers
 * are fused as Megatron-LM's.  It, too, recomputes all of a block (Oneflow-Inc/oneflow @ 03b7b8a,
 * oneflow/core/job_rewriter/checkpointing_pass.cpp); its batch norms of 16 bits add and cut
 * off (fuse_bn_add_relu, Oneflow-Inc/OneFlow-Benchmark, Classification/cnns).  Flash-attention's
 * code fuses the loss, norms with sums and what is dropped, and biases' gradients with products
 * (Dao-AILab/flash-attention @ 0b037c2, training/README.md); its kernel of attention is of Ampere's
 * instructions, as Triton's.
 *
 * Without --tp-comm-overlap Megatron-LM's gathers go by themselves, as in FlagOpen/FlagPerf @
 * adb02a5, training/benchmarks/llama3_70B/megatron/pretrain_llama3.sh.  With --use-flash-attn and
 * its own layers, its norms by the root mean square are PyTorch's (megatron/model/rms_norm.py @
 * 782633c), and gradients are summed in float32.
 *
 * Nanotron's norms and rotations are kernels of Triton, attention is FlashAttention-2's, the loss
 * Megatron-LM's (huggingface/nanotron @ 03b83fc, src/nanotron/models/llama.py).  Before each tensor
 * that a stage sends go two messages with its dimensions, strides and type; the host reads each
 * number by itself, and waits for the device; who sends them copies them from pageable memory, and
 * waits, too (parallel/pipeline_parallel/p2p.py @ 3024b46: _recv_meta, _send_meta and
 * create_empty_storage, 22 calls and reads for a tensor).  Forward a mask goes with each value.
 */
static const struct ff_framework rows[] = {
		{.name = "pytorch",
				.summary = "eager PyTorch",
				PYTORCH,
				.convolutions.channels_first = {true, true}},
		{.name = "pytorch-tf32",
				.summary = "the same in TF32",
				PYTORCH,
				.convolutions.channels_first = {true, true},
				.tf32_products = true},
		{.name = "pytorch-nhwc",
				.summary = "channels last in 16 bits",
				PYTORCH,
				.convolutions.channels_first = {true, false}},
		{.name = "pytorch-amp",
				.summary = "by autocast",
				.hosts.operator_us = 59,
				.hosts.calls = true,
				.products = true,
				.copies = true,
				.sums = true,
				.hands_on = true,
				.convolutions = {true, true, true, {true, true}},
				.passes = 4,
				.casts = true,
				.gradient_passes = 19,
				.written = {.loss = {18, 22}},
				.wide = {.norms = true, .softmax = true}},
		{.name = "pytorch-compiled",
				.summary = "by torch.compile",
				.hosts.operator_us = 59, /* as it is eager */
				.hosts.calls = true,
				.hands_on = true,
				.drops = true,
				.casts = true,
				.attention = flash,
				.written = {.loss = {2, 4}},
				.joins = true},
		{.name = "tensorflow",
				.summary = "TensorFlow of 2017",
				.hosts.operator_us = 59, /* as it is eager PyTorch's */
				.hosts.calls = true,
				.products = true,
				.copies = true,
				.sums = true,
				.convolutions.biases = true,
				.hands_on = true,
				.blocks = true,
				.convolutions.channels_first = {true, true},
				.passes = 4},
		{.name = "fsdp",
				.summary = "PyTorch's FSDP with fused attention",
				.hosts.operator_us = 59, /* as it is eager PyTorch */
				.hosts.calls = true,
				.sums = true,
				.hands_on = true,
				.convolutions.tf32 = true,
				.convolutions.channels_first = {true, true},
				.attention = triton,
				.written.loss = {18, 22},
				.written.rms_norm = {36, 80},
				.written.rope = {20, 20}},
		{.name = "nanotron",
				.summary = "nanotron",
				.hosts = {.operator_us = 130,
						.calls = true,
						.waits = true,
						.times_passes = true,
						.shapes = {44, 22}},
				.hands_on = true,
				.attention = flash,
				.written.loss = {38, 14}},
		{.name = "megatron",
				.summary = "Megatron-DeepSpeed",
				.hosts.operator_us = 73,
				.hosts.waits = true,
				.hosts.times_passes = true,
				.whole = true,
				.at_once = true,
				.narrow = true,
				.products = true,
				.causal = true,
				.sums = true,
				.hands_on = true,
				.drops = true,
				.written.loss = {38, 14}},
		{.name = "megatron-core",
				.summary = "Megatron-LM with Transformer Engine",
				.hosts.operator_us = 73, /* as they are Megatron-DeepSpeed's */
				.narrow = true,
				.hands_on = true,
				.adds = true,
				.beside = true,
				.drops = true,
				.written.loss = {38, 14}},
		{.name = "megatron-te",
				.summary = "without --tp-comm-overlap",
				.hosts.operator_us = 73, /* as they are Megatron-DeepSpeed's */
				.narrow = true,
				.hands_on = true,
				.adds = true,
				.drops = true,
				.written.loss = {38, 14}},
		{.name = "megatron-flash",
				.summary = "Megatron-LM with FlashAttention",
				.hosts.operator_us = 73, /* as they are Megatron-DeepSpeed's */
				.hands_on = true,
				.adds = true,
				.drops = true,
				.attention = flash,
				.written.loss = {38, 14},
				.written.rms_norm = {36, 80},
				.written.rope = {20, 20}},
		{.name = "oneflow",
				.summary = "OneFlow",
				.whole = true,
				.products = true,
				.causal = true,
				.sums = true,
				.hands_on = true,
				.drops = true,
				.fuses = {false, true}},
		{.name = "flash-attention",
				.summary = "its training code",
				.hosts.operator_us = 59, /* as it is eager PyTorch */
				.hosts.calls = true,
				.hands_on = true,
				.drops = true,
				.casts = true,
				.attention = triton},
		{.name = "examples",
				.summary = "NVIDIA's DeepLearningExamples",
				EXAMPLES,
				.convolutions.channels_first = {true, false}},
		{.name = "examples-nchw",
				.summary = "channels first",
				EXAMPLES,
				.convolutions.channels_first = {true, true}},
		{.name = "examples-mxnet",
				.summary = "in MxNet",
				EXAMPLES,
				.fuses = {false, true},
				.convolutions.channels_first = {true, false}},
		{.name = "examples-mlperf",
				.summary = "in MxNet, as CUDA graphs",
				REPLAYED,
				.fuses = {false, true},
				.convolutions.sums_up = true,
				.convolutions.channels_first = {true, false}},
		{.name = "examples-tensorflow",
				.summary = "without XLA",
				EXAMPLES,
				.convolutions.channels_first = {true, false},
				.wide.norms = true,
				.written.layer_norm = {60, 160}},
		{.name = "examples-xla",
				.summary = "by XLA",
				EXAMPLES,
				.fuses = {true, true},
				.wide.norms = true,
				.convolutions.channels_first = {true, false}},
};
#define N_ROWS (sizeof(rows) / sizeof(*rows))

static void list(bool summaries, char buf[FF_FRAMEWORK_TEXT])
{
	size_t used = 0;

	for (size_t i = 0; i < N_ROWS; i++) {
		const char *between = i == 0 ? "" : i + 1 < N_ROWS ? ", " : " or ";

		used += (size_t)snprintf(buf + used, FF_FRAMEWORK_TEXT - used, "%s%s%s%s%s",
				between, rows[i].name, summaries ? " (" : "",
				summaries ? rows[i].summary : "", summaries ? ")" : "");
	}
}

void ff_framework_list(char buf[FF_FRAMEWORK_TEXT])
{
	list(true, buf);
}

/* ":NUMBER" */
static int read_number(const char *text, struct ff_framework *f, struct ff_error *err)
{
	char *end;
	double v = strtod(text + 1, &end);

	if (end == text + 1 || *end || !(v >= 0 && v <= MOST))
		return ff_fail(err, FF_E_INPUT,
				"expected a number from 0 to %g behind the colon, not \"%.60s\"",
				MOST, text + 1);
	*(f->times > 0 ? &f->times : &f->hosts.operator_us) = v;
	return FF_OK;
}

int ff_framework_find(const char *text, struct ff_framework *ret, struct ff_error *err)
{
	size_t n = strcspn(text, ":");
	char known[FF_FRAMEWORK_TEXT], word[FF_NEAREST_LENGTH];
	struct ff_nearest near;

	snprintf(word, sizeof(word), "%.*s", (int)n, text);
	ff_nearest_init(&near, word);
	for (size_t i = 0; i < N_ROWS; i++) {
		struct ff_framework row = rows[i];

		if (!strcmp(row.name, word)) {
			int code = text[n] ? read_number(text + n, &row, err) : FF_OK;

			if (code == FF_OK)
				*ret = row;
			return code;
		}
		ff_nearest_try(&near, row.name);
	}
	list(false, known);
	return ff_fail(err, FF_E_INPUT, "expected %s, not \"%.60s\"%s", known, text,
			ff_nearest_hint(&near));
}
