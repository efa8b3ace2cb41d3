/* Scratch of kernels.  Of our own kernels it is what they reserve (runtime/cpu, runtime/cuda);
 * what libraries want is theirs to choose, so there it is the most that was seen: of oneDNN 2.6
 * for the networks of the zoo, in float32 and bfloat16, with 1, 2 and 8 threads.  What cuBLASLt and
 * cuDNN may take is limited.  docs/simulator.md, "Scratch".  SPDX-License-Identifier: Apache-2.0 */
#include "ff/scratch.h"

#include <math.h>
#include <string.h>

#define KIB ((int64_t)1024)
#define MIB (1024 * KIB)

/* A thread of a CPU does no more float32 operations a second: so many threads has a device. */
#define THREAD_FLOPS_PER_S 5e10
#define MOST_THREADS 64
/* Our own kernels sum by so many shares (runtime/cpu/ops/norm/batch_norm.c, norm.c). */
#define SHARES 16
/* A product packs blocks of one factor: columns, and at most so many rows. */
#define PACKED_COLUMNS 64
#define PACKED_ROWS 1024
/* In bfloat16 what gradients are made of is transposed, and long products have more blocks. */
#define TRANSPOSED (352 * KIB)
#define LONG_PRODUCT (1700 * KIB)
/* A convolution packs likewise, for gradients of filters of one tap more; with few input channels
 * it keeps windows of the image, which are some times its filters. */
#define BLOCK 16
#define FILTER_GRADIENT (530 * KIB)
/* Of at least so many windows, threads share a gradient's sum: each has its own. */
#define SHARED_WINDOWS 1024
#define FEW_CHANNELS_TIMES 5
/* Blocks of queries (runtime/cpu/ops/sequence/attention.c). */
#define SCORES 65536
#define LEAST_QUERIES 16
#define MOST_QUERIES 128
/* runtime/cuda/libs/plan.h, blas.c; all else sums by blocks. */
#define CUDA_PLAN (256 * MIB)
/* Plans of convolutions by cuDNN 9.19 take no more than images in float32 and a quarter of that
 * (where channels are few), and so many times the filters, on A100, H100 and B200
 * (docs/device-models.md, "Workspaces"). */
#define CUDA_FILTERS 4
#define CUDA_FILTERS_NARROW 128 /* in bfloat16 */
#define CUDA_PRODUCT (32 * MIB)
#define CUDA_OTHER (4 * MIB)
/* runtime/cuda/ops/dense/unfold.c */
#define CUDA_UNFOLD (32 * MIB)
#define CUDA_UNIT 16      /* bytes of channels */
#define CUDA_ALIGNMENT 64 /* of what is multiplied */

/* Bytes of scratch, for each thread, and for each but the first. */
struct need {
	int64_t once, each, others;
};
typedef struct need (*estimate)(const struct ff_work *w);
typedef int64_t (*estimate_bytes)(const struct ff_work *w);

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t up(int64_t x, int64_t to)
{
	return (x + to - 1) / to * to;
}

/* Of a region that may be empty, as windows may meet nothing but padding: for what is divided by.
 */
static int64_t extent(const struct ff_region *r, uint32_t axis)
{
	return larger(1, ff_region_size(r, axis));
}

static int64_t operand(const struct ff_work *w, uint32_t i, int64_t size)
{
	return up(ff_region_volume(&w->in[i]) * size, 64);
}

static int64_t result(const struct ff_work *w, int64_t size)
{
	return up(ff_region_volume(&w->out[0]) * size, 64);
}

static bool is_back(const struct ff_work *w)
{
	return w->pass == FF_BACKWARD;
}

static int64_t type_bytes(const struct ff_work *w)
{
	return ff_dtype_bytes(ff_work_type(w));
}

/* A product over `inner` elements, by oneDNN's matmul: a thread's. */
static int64_t product(const struct ff_work *w, int64_t inner)
{
	int64_t packed = smaller(up(inner, BLOCK), PACKED_ROWS) * PACKED_COLUMNS * type_bytes(w);

	if (ff_work_type(w) == FF_F32)
		return packed + 4 * KIB;
	if (inner > (is_back(w) ? 1 : 2) * PACKED_ROWS)
		return LONG_PRODUCT;
	return is_back(w) || inner > PACKED_ROWS ? TRANSPOSED : packed + 4 * KIB;
}

static struct need of_linear(const struct ff_work *w)
{
	const struct ff_operand *x = &w->node->in_map[0];
	uint32_t last = w->in[0].rank - 1;
	int64_t size = type_bytes(w);
	int64_t inner = extent(&w->in[0], last);
	struct need n = {0};

	if (x->order[last] != last) /* brought into row-major order */
		n.once = operand(w, 0, size) + result(w, size);
	if (!is_back(w) || ff_work_type(w) != FF_F32)
		n.each = product(w, is_back(w) ? ff_region_volume(&w->in[0]) / inner : inner);
	return n;
}

/* Matrices that are one for many, or do not lie one behind the other, are made so. */
static bool is_moved(const struct ff_operand *o, const struct ff_region *r, int64_t samples)
{
	int64_t have = 1;

	for (uint32_t i = 0; i + 2 < r->rank; i++)
		have *= ff_region_size(r, i);
	for (uint32_t i = 0; i < o->rank; i++)
		if (o->order[i] != i)
			return true;
	return have != samples;
}

static struct need of_matmul(const struct ff_work *w)
{
	const struct ff_operand *o[] = {
			&w->node->in_map[0], &w->node->in_map[1], &w->node->out_map[0]};
	const struct ff_region *r[] = {&w->in[0], &w->in[1], &w->out[0]};
	int64_t samples = 1, inner = 1;
	struct need n = {0};

	for (uint32_t i = 0; i + 2 < w->out[0].rank; i++)
		samples *= ff_region_size(&w->out[0], i);
	for (int i = 0; i < 3; i++) {
		int64_t matrix = 1;

		for (uint32_t k = r[i]->rank > 2 ? r[i]->rank - 2 : 0; k < r[i]->rank; k++) {
			matrix *= ff_region_size(r[i], k);
			inner = larger(inner, ff_region_size(r[i], k));
		}
		if (is_moved(o[i], r[i], samples))
			n.once += up(samples * matrix * type_bytes(w), 64) +
				  up(samples * matrix * FF_F32_BYTES, 64);
	}
	n.each = product(w, inner) + (inner > PACKED_ROWS ? TRANSPOSED + 64 * KIB : 0);
	return n;
}

static bool is_last(const struct ff_operand *o)
{
	return o->order[o->rank - 1] == 1;
}

/* Whether a part's channels begin or end within a group, or are a part of each. */
static bool cuts_groups(const struct ff_work *w)
{
	const struct ff_operand *weight = &w->node->in_map[w->node->n_data];
	const struct ff_region *part = &w->in[w->node->n_data];
	int32_t groups = w->node->attrs.conv.groups, each = weight->shape[0] / groups;

	return groups > 1 && (part->lo[0] % each || part->hi[0] % each ||
					     ff_region_size(part, 1) != weight->shape[1]);
}

/* Windows of one element, some steps apart: what they read is packed. */
static int64_t thinned(const struct ff_work *w, int64_t size)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	int64_t n = ff_region_size(&w->in[0], 0) * (int64_t)ff_region_size(&w->in[0], 1);
	bool strides = false;

	for (uint32_t i = 0; i + 2 < w->in[0].rank; i++) {
		if (a->kernel[i] != 1)
			return 0;
		strides = strides || a->stride[i] > 1;
		n *= ff_region_size(&w->out[0], 2 + i);
	}
	return strides ? up(n * size, 64) : 0;
}

/* Gradients of volumes in bfloat16 are found in float32. */
static bool is_wide(const struct ff_work *w)
{
	return is_back(w) && ff_work_type(w) != FF_F32 && w->in[0].rank == 5;
}

/* Bytes of images that are packed or widened. */
static int64_t packed_images(const struct ff_work *w)
{
	int64_t size = type_bytes(w), both = operand(w, 0, size) + result(w, size);
	bool last = is_last(&w->node->in_map[0]) && is_last(&w->node->out_map[0]);

	return (cuts_groups(w) || !last ? both : thinned(w, size)) +
	       (is_wide(w) ? operand(w, 0, FF_F32_BYTES) + result(w, FF_F32_BYTES) : 0);
}

/* Filters in the library's order: blocks of channels, filled up in every group; of one channel a
 * group, blocks of groups. */
static int64_t ordered_filters(const struct ff_work *w)
{
	const struct ff_region *weight = &w->in[w->node->n_data];
	int64_t k = extent(weight, 0), c = extent(weight, 1);
	int64_t taps = ff_region_volume(weight) / (k * c), groups = w->node->attrs.conv.groups;
	int64_t each = smaller(k, w->node->in_map[w->node->n_data].shape[0] / groups);

	if (groups > 1 && c == 1)
		return up(k, BLOCK) * taps * FF_F32_BYTES;
	if (groups == 1 && c < BLOCK)
		return up(k, BLOCK) * c * taps * FF_F32_BYTES;
	return (k + each - 1) / each * up(each, BLOCK) * up(c, BLOCK) * taps * FF_F32_BYTES;
}

/* A sample's images, transposed for gradients in bfloat16, the narrower as wide as the other. */
static int64_t transposed_images(const struct ff_work *w)
{
	int64_t n = extent(&w->in[0], 0);
	int64_t in = extent(&w->in[0], 1), out = extent(&w->out[0], 1);
	int64_t pixels = ff_region_volume(&w->in[0]) / (n * in) +
			 ff_region_volume(&w->out[0]) / (n * out);

	if (!is_back(w) || ff_work_type(w) == FF_F32 || is_wide(w))
		return 0;
	return pixels * up(larger(in, out), PACKED_COLUMNS) * type_bytes(w);
}

static struct need of_conv(const struct ff_work *w)
{
	const struct ff_region *weight = &w->in[w->node->n_data];
	int64_t k = extent(weight, 0), c = extent(weight, 1);
	int64_t taps = ff_region_volume(weight) / (k * c), windows, ordered = ordered_filters(w);
	int32_t groups = w->node->attrs.conv.groups;
	struct need n = {.once = packed_images(w) + ordered + 32 * KIB};

	n.each = smaller(up(taps * larger(k, c), BLOCK), PACKED_ROWS) * PACKED_COLUMNS *
				 FF_F32_BYTES +
		 KIB;
	if (is_back(w) && taps == 1)
		n.each = FILTER_GRADIENT;
	n.each = smaller(n.each, groups > 1 ? 16 * KIB : larger(8 * ordered, 16 * KIB));
	if (is_back(w) && groups == 1 && c < BLOCK)
		n.each = larger(n.each, FEW_CHANNELS_TIMES * ordered);
	n.each += transposed_images(w);
	if (is_back(w) && ff_work_type(w) != FF_F32 && taps > 1) /* with AMX, one tap more */
		n.once += ordered / taps;
	windows = ff_region_volume(&w->out[0]) / extent(&w->out[0], 1);
	if (is_back(w) && windows >= SHARED_WINDOWS)
		n.others = ordered;
	return n;
}

/* Windows that overlap, or leave borders out, are summed in an image of their own. */
static struct need of_conv_transpose(const struct ff_work *w)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	bool apart = ff_work_type(w) != FF_F32;
	struct need n = of_conv(w);

	for (uint32_t i = 0; i + 2 < w->in[0].rank; i++)
		apart = apart || a->kernel[i] != a->stride[i] || a->pad[0][i] || a->pad[1][i];
	n.once += apart ? operand(w, 0, FF_F32_BYTES) + 2 * result(w, FF_F32_BYTES) : 0;
	return n;
}

/* In bfloat16 gradients of windows that overlap are summed in float32, and where
 * the largest lay, in words of 4 bytes, found. */
static struct need of_pool(const struct ff_work *w)
{
	const struct ff_pool_attrs *a = &w->node->attrs.pool;
	bool widened = w->node->n_saved > 0 && w->node->out_map[1].dtype == FF_I32;

	for (uint32_t i = 0; i + 2 < w->in[0].rank; i++)
		widened = widened || (is_back(w) && a->kernel[i] > a->stride[i]);
	if (!widened || ff_work_type(w) == FF_F32)
		return (struct need){0};
	return (struct need){.once = operand(w, 0, FF_F32_BYTES) + result(w, FF_F32_BYTES)};
}

/* Lines of channels, of sums in float64 and in float32. */
static struct need of_batch_norm(const struct ff_work *w)
{
	int64_t channels = ff_region_size(&w->in[0], 1);

	return (struct need){.once = up(4 * channels * FF_F32_BYTES, 64) +
				     up(2 * SHARES * channels * 8, 64) +
				     up(2 * SHARES * channels * FF_F32_BYTES, 64)};
}

static struct need of_norm(const struct ff_work *w)
{
	int64_t features = 0;

	for (uint32_t i = w->node->n_data; i < w->node->n_in; i++)
		features = larger(features, ff_region_volume(&w->in[i]));
	if (!features) /* no weights: of a row, or of a sample's channels */
		features = ff_region_volume(&w->out[0]) / extent(&w->out[0], 0);
	return (struct need){.once = is_back(w) ? 2 * SHARES * features * FF_F32_BYTES : 0};
}

static struct need of_response(const struct ff_work *w)
{
	return (struct need){.once = is_back(w) ? 2 * result(w, FF_F32_BYTES) : 0};
}

static int64_t attention_block(int64_t queries, int64_t keys)
{
	int64_t block = SCORES / keys / LEAST_QUERIES * LEAST_QUERIES;

	return smaller(queries, smaller(larger(block, LEAST_QUERIES), MOST_QUERIES));
}

/* A slot for each thread: scores of a block of queries, what it reads and makes. */
static struct need of_attention(const struct ff_work *w)
{
	enum { QUERY = 2, KEY = 3 };
	int64_t size = w->node->attrs.attention.head_dim, keys = extent(&w->box, KEY);
	int64_t block = attention_block(ff_region_size(&w->box, QUERY), keys);
	int64_t slot = block * keys + 2 * block * size + 2 * keys * size;

	if (is_back(w))
		slot += block * keys + 2 * keys * size;
	return (struct need){.each = up(slot, BLOCK) * FF_F32_BYTES};
}

/* A step's products and states, for backward the gates' gradients of all, the packed weights. */
static struct need of_recurrent(const struct ff_work *w)
{
	int64_t samples = ff_region_size(&w->out[0], 0), steps = ff_region_size(&w->out[0], 1);
	int64_t hidden = ff_region_size(&w->out[0], 2), each = samples * hidden;
	int64_t gates = w->node->in_map[0].shape[2] / w->node->out_map[0].shape[2];
	int64_t halves = w->node->attrs.recurrent.reset_first ? 2 : 1;
	int64_t all = gates * each * FF_F32_BYTES;

	return (struct need){
			.once = 2 * all + 3 * each * FF_F32_BYTES + gates * hidden * FF_F32_BYTES +
				up(gates * hidden, PACKED_COLUMNS) * up(hidden, PACKED_COLUMNS) *
						type_bytes(w) +
				(is_back(w) ? steps * halves * gates * each * type_bytes(w) : 0) +
				KIB,
			.each = product(w, is_back(w) ? gates * hidden : hidden)};
}

static struct need of_extreme(const struct ff_work *w)
{
	return (struct need){.once = result(w, FF_F32_BYTES) + 64};
}

static struct need of_route(const struct ff_work *w)
{
	return (struct need){.once = 2 * operand(w, 0, FF_F32_BYTES)};
}

/* By operator; NULL: none. */
static const estimate cpu[FF_OP_COUNT] = {
#define CONV(e, row) [e] = of_conv,
#define CONV_TRANSPOSE(e, row) [e] = of_conv_transpose,
#define POOL(e, row) [e] = of_pool,
		FF_CONV_OPS(CONV) FF_CONV_TRANSPOSE_OPS(CONV_TRANSPOSE) FF_POOL_OPS(POOL)
#undef CONV
#undef CONV_TRANSPOSE
#undef POOL
				[FF_OP_LINEAR] = of_linear,
		[FF_OP_MATMUL] = of_matmul,
		[FF_OP_BATCH_MOMENTS] = of_batch_norm,
		[FF_OP_BATCH_NORM] = of_batch_norm,
		[FF_OP_LAYER_NORM] = of_norm,
		[FF_OP_RMS_NORM] = of_norm,
		[FF_OP_GROUP_NORM] = of_norm,
		[FF_OP_LOCAL_RESPONSE_NORM] = of_response,
		[FF_OP_ATTENTION_STATISTICS] = of_attention,
		[FF_OP_ATTENTION] = of_attention,
		[FF_OP_RNN] = of_recurrent,
		[FF_OP_LSTM] = of_recurrent,
		[FF_OP_GRU] = of_recurrent,
		[FF_OP_MAX_STATISTICS] = of_extreme,
		[FF_OP_ROUTE] = of_route,
};

/* Whether gradients of filters may be made of unfolded images: rows of channels are units of 16
 * bytes. */
static bool unfolds(const struct ff_work *w)
{
	return w->node->attrs.conv.groups == 1 &&
	       ff_region_size(&w->in[0], 1) * type_bytes(w) % CUDA_UNIT == 0;
}

/* The fewest samples that are unfolded at once: their results are followed by the next ones' where
 * cuBLASLt takes them. */
static int64_t fewest_unfolded(const struct ff_work *w)
{
	int64_t samples = extent(&w->out[0], 0);
	int64_t bytes = ff_region_volume(&w->out[0]) / samples * type_bytes(w), fewest = 1;

	while (fewest * bytes % CUDA_ALIGNMENT)
		fewest *= 2;
	return samples % fewest ? samples : fewest;
}

/* Of some samples a row for each window, and images with zeros around them (unfold.c). */
static int64_t unfolded(const struct ff_work *w)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	int64_t samples = extent(&w->out[0], 0), each = extent(&w->out[0], 1), share;
	int64_t filter = ff_region_volume(&w->in[w->node->n_data]) / each * type_bytes(w);
	int64_t row = larger(1, ff_region_volume(&w->out[0]) / samples / each * filter);
	int64_t image = ff_region_size(&w->in[0], 1) * type_bytes(w);

	for (uint32_t i = 0; i + 2 < w->in[0].rank; i++)
		image *= ff_region_size(&w->in[0], 2 + i) + a->pad[0][i] + a->pad[1][i];
	share = smaller(samples, larger(fewest_unfolded(w), CUDA_UNFOLD / row));
	return share * row > CUDA_PLAN ? 0 : up(share * row, 64) + up(share * image, 64);
}

/* Whole groups whose channels are units of 16 bytes. */
static bool has_even_groups(const struct ff_work *w)
{
	const struct ff_region *weight = &w->in[w->node->n_data];
	int64_t each = w->node->attrs.conv.out_channels / w->node->attrs.conv.groups;

	return !cuts_groups(w) && each * type_bytes(w) % CUDA_UNIT == 0 &&
	       ff_region_size(weight, 1) * type_bytes(w) % CUDA_UNIT == 0;
}

/* Of one tap: a product, one for each group, and pixels that are gathered for it.  Forward in
 * bfloat16 it is a plan, unless there are groups. */
static bool is_product(const struct ff_work *w)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	bool is = a->groups > 1 ? has_even_groups(w) : is_back(w) || ff_work_type(w) == FF_F32;

	for (uint32_t i = 0; i < ff_op_row(w->node->op)->axes; i++)
		is = is && a->kernel[i] == 1;
	return is;
}

static int64_t cuda_plan(const struct ff_work *w)
{
	int64_t images = operand(w, 0, FF_F32_BYTES) + result(w, FF_F32_BYTES);
	int64_t filters = ff_region_volume(&w->in[w->node->n_data]) * FF_F32_BYTES;
	bool many = ff_work_type(w) != FF_F32 && is_back(w) && !unfolds(w);

	return smaller(images + images / 4 + CUDA_OTHER +
					(many ? CUDA_FILTERS_NARROW : CUDA_FILTERS) * filters,
			CUDA_PLAN);
}

/* A plan of cuDNN, at most; for gradients of filters from bfloat16, images are widened besides, of
 * volumes (packed_images) as on a CPU. */
static int64_t cuda_transposed(const struct ff_work *w)
{
	int64_t image = operand(w, 0, FF_F32_BYTES);

	if (!is_back(w) || is_wide(w))
		return cuda_plan(w);
	/* of a part whose padding is uneven images are copied, with zeros around them */
	return cuda_plan(w) +
	       (ff_work_type(w) == FF_F32 ? image / 4 * 5 : image + result(w, FF_F32_BYTES));
}

/* Whether the pixels that windows of one tap meet are one matrix where they are. */
static bool is_matrix(const struct ff_work *w)
{
	return is_last(&w->node->in_map[0]) &&
	       ff_region_volume(&w->in[0]) / ff_region_size(&w->in[0], 1) ==
			       ff_region_volume(&w->out[0]) / extent(&w->out[0], 1);
}

/* Or images are unfolded for a product, whichever is faster. */
static int64_t cuda_convolution(const struct ff_work *w)
{
	int64_t bytes;

	if (is_product(w))
		return CUDA_PRODUCT + (is_matrix(w) ? 0 : operand(w, 0, type_bytes(w)));
	bytes = cuda_transposed(w);
	return is_back(w) && unfolds(w)
			       ? larger(bytes, larger(cuda_plan(w), CUDA_PRODUCT) + unfolded(w))
			       : bytes;
}

/* What the libraries' part of a kernel may take; what else it needs is as on a CPU, but for a
 * thread's share of it. */
static int64_t cuda_library(const struct ff_work *w)
{
	static const estimate_bytes convolution[FF_OP_COUNT] = {
#define CONV(e, row) [e] = cuda_convolution,
#define CONV_TRANSPOSE(e, row) [e] = cuda_transposed,
			FF_CONV_OPS(CONV) FF_CONV_TRANSPOSE_OPS(CONV_TRANSPOSE)
#undef CONV
#undef CONV_TRANSPOSE
	};
	static const int64_t most[FF_OP_COUNT] = {
			[FF_OP_ATTENTION_STATISTICS] = CUDA_PLAN,
			[FF_OP_ATTENTION] = CUDA_PLAN,
			[FF_OP_LINEAR] = CUDA_PRODUCT,
			[FF_OP_MATMUL] = CUDA_PRODUCT,
			[FF_OP_RNN] = CUDA_PRODUCT,
			[FF_OP_LSTM] = CUDA_PRODUCT,
			[FF_OP_GRU] = CUDA_PRODUCT,
	};

	if (convolution[w->node->op])
		return convolution[w->node->op](w);
	return larger(most[w->node->op], CUDA_OTHER);
}

void ff_scratch_init(const struct ff_machine *m, struct ff_scratch *ret)
{
	struct ff_scratch s = {.threads = 1};

	for (uint32_t i = 0; i < m->n_kinds; i++) {
		const struct ff_device_kind *k = &m->kinds[i];
		double threads = ceil(k->flops_per_s / THREAD_FLOPS_PER_S);

		if (k->backend && !strcmp(k->backend, "cuda")) {
			s.cuda = true;
			continue;
		}
		s.cpu = true;
		s.threads = larger(s.threads,
				threads < MOST_THREADS ? (int64_t)threads : MOST_THREADS);
	}
	*ret = s;
}

int64_t ff_scratch_bytes(void *scratch, const struct ff_work *w)
{
	const struct ff_scratch *s = scratch;
	estimate f = cpu[w->node->op];
	struct need n = f ? f(w) : (struct need){0};
	int64_t bytes = 0;

	if (s->cpu)
		bytes = n.once + s->threads * n.each + (s->threads - 1) * n.others;
	if (s->cuda)
		bytes = larger(bytes, n.once + cuda_library(w));
	return up(bytes, 64);
}
