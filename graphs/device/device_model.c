/* What kernels take, by a model of their device: the formulas, which docs/device-models.md
 * explains.  SPDX-License-Identifier: Apache-2.0 */
#include "device/device_model.h"
#include "ff/steps.h"

#include <math.h>

/* Products are cut along what they contract into at most so many, none shorter than this. */
#define MOST_SPLITS 512
#define LEAST_SPLIT 32
#define MOST_BLOCKS 8 /* a multiprocessor */
/* Rows of so many bytes are loaded in whole vectors. */
#define VECTOR_BYTES 16
/* There are few kernels for many products at once: none of so few rows or columns. */
#define FEW_COLUMNS 64
/* Of a multiprocessor, each of which starts an instruction a clock. */
#define SCHEDULERS 4
/* Queries of a block of attention. */
#define QUERIES 128
#define HEAD 128.0 /* elements of a long head */

/* Rows and columns of the output that one block of threads computes. */
static const double tiles[FF_MODEL_TILES][2] = {
		{256, 128}, {128, 128}, {128, 64}, {64, 64}, {128, 32}, {32, 32}};

/* Prices are asked for by the million, and without -ffast-math the library's are calls.  None is of
 * NaN, and what is rounded up is positive. */
static inline double least_of(double a, double b)
{
	return a < b ? a : b;
}

static inline double most_of(double a, double b)
{
	return a > b ? a : b;
}

static inline double round_up(double x)
{
	double whole;

	if (!(x < 0x1p52))
		return x; /* as whole as it gets */
	whole = (double)(int64_t)x;
	return whole < x ? whole + 1 : whole;
}

static bool is_tf32(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	return s->tf32 && s->type == FF_F32 && m->tf32_flops_per_s > 0;
}

/* Whose numbers count.  TF32 is multiplied by the tensor cores that multiply bfloat16, so at the
 * same shares of its own peak. */
static uint32_t type_of(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	return s->type == FF_BF16 || is_tf32(m, s);
}

static double bytes_us(const struct ff_device_model *m, double bytes, double share)
{
	return bytes * 1e6 / (m->memory_bytes_per_s * share);
}

/* Of two that overlap, the larger; where both are alike, a little more.  The smooth maximum
 * (a^4 + b^4)^(1/4), scaled so that nothing overflows. */
static double both_us(double a, double b)
{
	double most = most_of(a, b), least = least_of(a, b), r;

	if (!(most > 0))
		return 0;
	r = least / most;
	return most * sqrt(sqrt(1 + r * r * r * r));
}

static double type_bytes(const struct ff_kernel_shape *s)
{
	return (double)ff_dtype_bytes(s->type);
}

static double class_flops_per_s(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	return is_tf32(m, s) ? m->tf32_flops_per_s : m->flops_per_s[type_of(m, s)];
}

/* A product in tiles of so many rows and columns, each cut along k into `splits`: every wave is as
 * many blocks as there are multiprocessors.  Some time that is no less than `enough_us`, where it
 * takes no less. */
static double tiled_us(const struct ff_device_model *m, const double *v,
		const struct ff_kernel_shape *s, const double tile[2], double share, double splits,
		double enough_us)
{
	double blocks = round_up(s->m / tile[0]) * round_up(s->n / tile[1]) * s->count * splits;
	double waves = blocks / m->multiprocessors, whole = round_up(waves);
	double each = 2 * tile[0] * tile[1] * (s->k / splits + v[FF_OF_STARTUP]) * 1e6 *
		      m->multiprocessors / (class_flops_per_s(m, s) * share);
	double sums = splits > 1 ? 8 * splits * s->m * s->n * s->count : 0;
	double us = each * (v[FF_OF_WAVES] * whole + (1 - v[FF_OF_WAVES]) * most_of(waves, 1));

	if (us >= enough_us)
		return us;
	us = both_us(us, bytes_us(m, s->bytes, v[FF_OF_MEMORY]));
	if (splits > 1)
		us += v[FF_OF_SPLIT] + bytes_us(m, sums, v[FF_OF_MEMORY]);
	return us;
}

/* Smallest tiles compute nothing in vain: all that an output is cut into are equally large, and
 * where they have fewer elements than threads these share what is contracted.  A block loads its
 * sides for its whole area, so it computes at this share of what `tile`, which becomes as small,
 * does. */
static double fitted(const struct ff_kernel_shape *s, double tile[2])
{
	double whole = tile[0] * tile[1] / (tile[0] + tile[1]);

	tile[0] = s->m / round_up(s->m / tile[0]);
	tile[1] = s->n / round_up(s->n / tile[1]);
	return tile[0] * tile[1] / (tile[0] + tile[1]) / whole;
}

/* Whether rows of what is read and written begin at a multiple of so many bytes. */
static bool is_aligned(const struct ff_kernel_shape *s, int bytes)
{
	double size = type_bytes(s), first = s->a_transposed ? s->m : s->k;

	return fmod(s->n * size, bytes) == 0 && fmod(first * size, bytes) == 0;
}

/* Of what aligned rows are multiplied at.  A quarter of a vector lies, in proportion, between
 * nothing and half of one: assumed. */
static double odd_share(const double *v, const struct ff_kernel_shape *s)
{
	if (is_aligned(s, VECTOR_BYTES))
		return 1;
	if (is_aligned(s, VECTOR_BYTES / 2))
		return least_of(1, v[FF_OF_ODD] * v[FF_OF_HALF]);
	return v[FF_OF_ODD] * (is_aligned(s, VECTOR_BYTES / 4) ? sqrt(v[FF_OF_HALF]) : 1);
}

/* The best of all tiles, either way round, and splits; without the floor.  `share` of what tiles
 * compute at, none faster than `most`. */
static double product_us(const struct ff_device_model *m, const double *v,
		const struct ff_kernel_shape *s, double share, double most)
{
	double best = INFINITY, odd = odd_share(v, s);

	for (int i = 0; i < 2 * FF_MODEL_TILES; i++) {
		double tile[2] = {tiles[i / 2][i % 2], tiles[i / 2][1 - i % 2]};
		double blocks = round_up(s->m / tile[0]) * round_up(s->n / tile[1]) * s->count;
		double reach = share * odd * v[FF_OF_TILE + i / 2];

		if (s->count > 1 && least_of(tile[0], tile[1]) < FEW_COLUMNS)
			reach *= v[FF_OF_BATCHED];
		if (i / 2 == FF_MODEL_TILES - 1)
			reach *= fitted(s, tile);
		reach = least_of(reach, most);
		best = least_of(best, tiled_us(m, v, s, tile, reach, 1, best));
		for (double splits = 2; splits <= MOST_SPLITS && s->k / splits >= LEAST_SPLIT &&
					blocks * splits <= MOST_BLOCKS * m->multiprocessors;
				splits *= 2)
			best = least_of(best, tiled_us(m, v, s, tile, reach, splits, best));
	}
	return best;
}

/* A product that takes `us` at the clock it starts with.  In a step that goes on for long the power
 * limit leaves a lower clock (He, "Strangely, Matrix Multiplications on GPUs Run Faster When Given
 * 'Predictable' Data!", 2024).  Of one that is timed alone, over and over, the runs together are
 * long enough for that from about FF_OF_BURST on. */
static double held_us(const double *v, const struct ff_kernel_shape *s, double us)
{
	double more = 1 / v[FF_OF_SUSTAINED] - 1;

	return us * (1 + (s->brief ? more * us / (us + v[FF_OF_BURST]) : more));
}

/* In TF32, which libraries need not choose, no slower than in float32. */
static double any_product_us(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	const double *v = m->class[FF_KERNEL_PRODUCT][type_of(m, s)].v;
	double us = v[FF_OF_FLOOR] + held_us(v, s, product_us(m, v, s, 1, 1));
	struct ff_kernel_shape plain = *s;

	if (!is_tf32(m, s))
		return us;
	plain.tf32 = false;
	return least_of(us, any_product_us(m, &plain));
}

/* A product of windows, at a share of its pass and form. */
static double convolution_us(
		const struct ff_device_model *m, const double *v, const struct ff_kernel_shape *s)
{
	const double *factor = &v[FF_CONV_FACTOR + FF_CONV_FORMS * (int)s->pass];
	int form = s->stride > 1 ? FF_CONV_STRIDED
		   : s->taps > 1 ? FF_CONV_WINDOW
				 : FF_CONV_POINTWISE;
	double us = product_us(m, v, s, factor[form], v[FF_CONV_MOST]);
	struct ff_kernel_shape w = *s;

	if (s->winograd > 0 && factor[FF_CONV_WINOGRAD] > 0) {
		/* 2 x 2 places at once: 36 multiplications become 16, of 5 x 5 taps 100 become 36
		 * (cuDNN's developer guide: WINOGRAD_NONFUSED takes both) */
		double side = s->taps > 9 ? 6 : 4;

		w.count = side * side;
		if (s->pass == FF_CONV_FILTER) {
			w.n = s->n / s->taps;
			w.k = s->k / 4 * s->winograd;
		} else {
			w.m = s->m / 4 * s->winograd;
			w.k = s->k / s->taps;
		}
		us = least_of(us, product_us(m, v, &w, factor[FF_CONV_WINOGRAD], v[FF_CONV_MOST]));
	}
	return v[FF_OF_FLOOR] + us;
}

/* Tensor cores' kernels take channels last: operands that lie otherwise are brought in order
 * (NVIDIA, "Deep Learning Performance: Convolutional Layers", tensor layouts). */
static double reordered_us(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	const struct ff_kernel_shape copies = {.class = FF_KERNEL_STREAM, .bytes = 2 * s->bytes};

	return s->channels_first && type_of(m, s) ? ff_device_model_us(m, &copies, NULL) : 0;
}

/* Groups of few channels lie beside each other in a tile, with zeros between them: assumed, of 16
 * bits, as steps in TF32 are no faster than without. */
static struct ff_kernel_shape together(const struct ff_kernel_shape *s)
{
	struct ff_kernel_shape ret = *s;
	double channels = s->pass == FF_CONV_FILTER ? s->m : s->n, groups;

	for (groups = 1; 2 * groups <= s->count &&
			 2 * groups * channels <= tiles[FF_MODEL_TILES - 1][0];)
		groups *= 2;
	ret.count /= groups;
	ret.n *= groups;
	*(s->pass == FF_CONV_FILTER ? &ret.m : &ret.k) *= groups;
	return ret;
}

/* As tensor cores' kernels have it: rows of both images, of which a filter's gradient is a product,
 * are channels. */
static struct ff_kernel_shape channels_last(
		const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	struct ff_kernel_shape ret = *s;

	ret.a_transposed = s->pass == FF_CONV_FILTER && type_of(m, s);
	return ret;
}

/* Of groups, and of rows that are no whole vectors, tensor cores are of little use (NVIDIA, "Deep
 * Learning Performance: Convolutional Layers"); float32 units may be faster. */
static double any_convolution_us(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	const struct ff_model_class *c = m->class[FF_KERNEL_CONVOLUTION];
	const struct ff_kernel_shape last = channels_last(m, s), block = together(&last);
	const double *v = c[type_of(m, s)].v;
	double us = convolution_us(m, v, &last);
	struct ff_kernel_shape wide = *s;

	if (s->type == FF_BF16 && block.count < s->count)
		us = least_of(us, convolution_us(m, v, &block));
	us += reordered_us(m, s);
	if (type_of(m, s) == 0 ||
			(s->type == FF_BF16 && s->count <= 1 && is_aligned(&last, VECTOR_BYTES)))
		return us;
	wide.type = FF_F32;
	wide.tf32 = false;
	return least_of(us, convolution_us(m, c[0].v, &wide));
}

/* Blocks of queries go over all keys, the first some of them slowly; a wave as above.  Short heads
 * leave products of few columns. */
static double attention_us(
		const struct ff_device_model *m, const double *own, const struct ff_kernel_shape *s)
{
	const double *v = s->attention ? s->attention : own;
	double flops_per_s = class_flops_per_s(m, s) * (s->attention ? m->ampere_share : 1);
	double keys = s->n * s->share, slow = v[FF_ATTENTION_STARTUP];
	double flops = 4 * s->k * QUERIES * (keys + slow * (1 - exp(-keys / slow)));
	double rows = least_of(QUERIES, 16 * round_up(s->m / 16)) / QUERIES; /* of a block */
	double waves = s->count * round_up(s->m / QUERIES) / m->multiprocessors;
	double share = v[FF_ATTENTION_SHARE] *
		       pow(least_of(1, s->k / HEAD), v[FF_ATTENTION_NARROW]);
	double us = v[FF_ATTENTION_BLOCK] +
		    flops * 1e6 * m->multiprocessors / (flops_per_s * share);

	us *= rows;
	us *= v[FF_ATTENTION_WAVES] * round_up(waves) +
	      (1 - v[FF_ATTENTION_WAVES]) * most_of(waves, 1);
	if (s->back)
		us *= v[FF_ATTENTION_BACK];
	return v[FF_ATTENTION_FLOOR] + both_us(us, bytes_us(m, s->bytes, 1));
}

/* A step's product, which backward goes the other way, and reads the weights so often. */
static struct ff_kernel_shape step_of(const struct ff_kernel_shape *s, bool back, double readings)
{
	struct ff_kernel_shape step = *s;

	step.count = 1;
	step.n = back ? s->k : s->n;
	step.k = back ? s->n : s->k;
	step.bytes = (s->m * s->k + s->k * s->n * readings + s->m * s->n) * type_bytes(s);
	return step;
}

/* One kernel of ours.  Each warp multiplies some rows of the weights with some samples, in no
 * matrix unit: a multiplication takes its place among the loads of its factors, and few warps leave
 * schedulers idle.  Blocks meet behind a step in the time that a kernel starts in behind another,
 * and what is in caches comes no faster than memory.  Assumed, never timed. */
static double whole_us(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	const double *stream = m->class[FF_KERNEL_STREAM][0].v, samples = FF_STEP_SAMPLES;
	double rows = s->back ? FF_STEP_FEATURES : s->n / s->k, inner = s->back ? s->n : s->k;
	double features = s->back ? round_up(s->k / FF_STEP_FEATURES) : s->k;
	double readings = round_up(s->m / samples);
	double warps = features * readings / m->multiprocessors; /* of one of these */
	double share = rows * samples / (rows * samples + rows + samples), us;

	warps = warps > FF_STEP_WARPS ? FF_STEP_WARPS * round_up(warps / FF_STEP_WARPS)
				      : round_up(warps);
	share *= least_of(1, warps / SCHEDULERS);
	us = 2 * warps * rows * samples * inner * m->multiprocessors * 1e6 /
	     (m->flops_per_s[0] * share);
	us = both_us(us, bytes_us(m, step_of(s, s->back, readings).bytes, stream[FF_BY_SHARE]));
	return most_of(s->count * (stream[FF_BY_FLOOR] + us),
			ff_device_model_stream_us(m, s->bytes));
}

/* For each step a library's product, and a kernel of ours that reads what that wrote. */
static double launched_us(
		const struct ff_device_model *m, const double *of, const struct ff_kernel_shape *s)
{
	const struct ff_kernel_shape step = step_of(s, s->back, 1);
	double bytes = s->bytes / s->count + step.m * step.n * FF_F32_BYTES;

	return s->count * (of[FF_OF_FLOOR] + product_us(m, of, &step, 1, 1) +
					  ff_device_model_stream_us(m, bytes));
}

/* A library's steps one behind the other, each a product at a share of what a product alone
 * takes. */
static double recurrent_us(const struct ff_device_model *m, const double *v, const double *of,
		const struct ff_kernel_shape *s)
{
	const struct ff_kernel_shape step = step_of(s, false, 1);
	double us;

	if (s->steps != FF_STEPS_LIBRARY)
		return s->steps == FF_STEPS_WHOLE ? whole_us(m, s) : launched_us(m, of, s);
	us = product_us(m, of, &step, 1, 1) / v[FF_RECURRENT_SHARE];
	us *= s->back ? v[FF_RECURRENT_BACK] : 1;
	us = most_of(us, 2 * s->m * s->n * s->k * 1e6 / class_flops_per_s(m, s));
	return s->count * (v[FF_RECURRENT_STEP] + us);
}

static double memory_us(
		const struct ff_device_model *m, const double *v, const struct ff_kernel_shape *s)
{
	double share = v[FF_BY_SHARE] * (s->back ? v[FF_BY_BACK] : 1);

	return (s->fused ? 0 : v[FF_BY_FLOOR]) + bytes_us(m, s->bytes, share);
}

static bool is_back(const struct ff_kernel_shape *s)
{
	return s->back || (s->class == FF_KERNEL_CONVOLUTION && s->pass != FF_CONV_FORWARD);
}

/* Steps that a backend of ours has are no library's. */
static bool is_inferred(const struct ff_device_model *m, const struct ff_kernel_shape *s)
{
	const struct ff_model_class *c = &m->class[s->class][type_of(m, s)];

	if (s->steps == FF_STEPS_LAUNCHED)
		return m->class[FF_KERNEL_PRODUCT][type_of(m, s)].inferred;
	return is_tf32(m, s) || s->attention || s->steps == FF_STEPS_WHOLE ||
	       (is_back(s) ? c->back_inferred : c->inferred);
}

double ff_device_model_us(
		const struct ff_device_model *m, const struct ff_kernel_shape *s, bool *inferred)
{
	uint32_t t = type_of(m, s);
	const struct ff_model_class *c = &m->class[s->class][t];
	const double *of = m->class[FF_KERNEL_PRODUCT][t].v;

	if (inferred)
		*inferred = is_inferred(m, s);
	switch (s->class) {
	case FF_KERNEL_PRODUCT:
		return any_product_us(m, s);
	case FF_KERNEL_CONVOLUTION:
		return any_convolution_us(m, s);
	case FF_KERNEL_ATTENTION:
		return attention_us(m, c->v, s);
	case FF_KERNEL_RECURRENT:
		return recurrent_us(m, c->v, of, s);
	default:
		return memory_us(m, c->v, s);
	}
}

double ff_device_model_kernels_us(const struct ff_device_model *m, const struct ff_kernel_shape *s,
		uint32_t n, struct ff_inferred *ret)
{
	struct ff_inferred guessed = {0, 0};
	double us = 0;

	for (uint32_t i = 0; i < n; i++) {
		bool inferred;
		double each = ff_device_model_us(m, &s[i], &inferred);

		us += each;
		if (!inferred)
			continue;
		guessed.us += each;
		guessed.classes |= (uint32_t)1 << s[i].class;
	}
	*ret = guessed;
	return us;
}

double ff_device_model_work_us(
		const struct ff_device_model *m, const struct ff_work *w, struct ff_inferred *ret)
{
	struct ff_kernel_shape s[FF_MOST_KERNELS];

	return ff_device_model_kernels_us(m, s, ff_work_kernels(w, s), ret);
}

double ff_device_model_stream_us(const struct ff_device_model *m, double bytes)
{
	const struct ff_kernel_shape s = {.class = FF_KERNEL_STREAM, .bytes = bytes};

	return ff_device_model_us(m, &s, NULL);
}
