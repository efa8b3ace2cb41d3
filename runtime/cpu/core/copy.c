/* Strided copies: axes are sorted and merged (runtime/kernels/strided.c) until the inner loops are
 * long runs, or tiles of a transposition.  SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include <string.h>

#include "ff/clones.h"

#define TILE 16
#define SHORT_RUN 16    /* elements; a call of memcpy costs more than this loop */
#define CHUNK (1 << 15) /* elements worth a thread */
#define MAX_CHUNKS 256

/* The two innermost loops: `run` is the last axis, `row` the one that makes a
 * tile with it (a transposition), or n = 1.  In elements. */
struct inner {
	int64_t n_run, run_source, run_sink;
	int64_t n_row, row_source, row_sink;
	enum ff_dtype type;
	bool add;
	enum ff_reduce reduce;
};

/* Runs, and rows of tiles small enough for the first cache on either side, of elements
 * that are so many bits, whatever they mean. */
#define COPY_BITS(bits)                                                                             \
	typedef uint##bits##_t __attribute__((may_alias)) word##bits;                               \
                                                                                                    \
	static void copy_run_##bits(const struct inner *p, const void *from, void *to)              \
	{                                                                                           \
		int64_t n = p->n_run, a = p->run_source, b = p->run_sink;                           \
		const word##bits *source = from;                                                    \
		word##bits *sink = to;                                                              \
                                                                                                    \
		if (a == 1 && b == 1)                                                               \
			for (int64_t i = 0; i < n; i++)                                             \
				sink[i] = source[i];                                                \
		else                                                                                \
			for (int64_t i = 0; i < n; i++)                                             \
				sink[i * b] = source[i * a];                                        \
	}                                                                                           \
                                                                                                    \
	static void transpose_##bits(const struct inner *p, const void *from, void *to)             \
	{                                                                                           \
		const word##bits *source = from;                                                    \
		word##bits *sink = to;                                                              \
                                                                                                    \
		for (int64_t row = 0; row < p->n_row; row += TILE)                                  \
			for (int64_t run = 0; run < p->n_run; run += TILE) {                        \
				int64_t rows = row + TILE < p->n_row ? row + TILE : p->n_row;       \
				int64_t runs = run + TILE < p->n_run ? run + TILE : p->n_run;       \
                                                                                                    \
				for (int64_t i = row; i < rows; i++)                                \
					for (int64_t j = run; j < runs; j++)                        \
						sink[i * p->row_sink + j * p->run_sink] =           \
								source[i * p->row_source +          \
										j * p->run_source]; \
			}                                                                           \
	}

COPY_BITS(8)
COPY_BITS(16)
COPY_BITS(32)

#define SIDE 8
typedef uint32_t square_row __attribute__((vector_size(SIDE * sizeof(uint32_t))));

/* Each pair of rows, half by half of 128 bits: their first, their second elements. */
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define BY_ONE(a, b) PICK(a, b, 0, 8, 1, 9, 4, 12, 5, 13), PICK(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define BY_TWO(a, b) PICK(a, b, 0, 1, 8, 9, 4, 5, 12, 13), PICK(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW(a, b) PICK(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH(a, b) PICK(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

/* Squares of elements of 32 bits, `rows` by `runs` of them, in registers: rows are neighbours in
 * the source, runs in the sink. */
FF_CLONES static void transpose_squares(const struct inner *p, const uint32_t *source,
		uint32_t *sink, int64_t rows, int64_t runs)
{
	for (int64_t i = 0; i < rows * SIDE; i += SIDE)
		for (int64_t j = 0; j < runs * SIDE; j += SIDE) {
			square_row r[SIDE];

			for (int k = 0; k < SIDE; k++)
				memcpy(&r[k], source + i + (j + k) * p->run_source, sizeof(r[k]));
			const square_row a[] = {BY_ONE(r[0], r[1]), BY_ONE(r[2], r[3]),
					BY_ONE(r[4], r[5]), BY_ONE(r[6], r[7])};
			const square_row b[] = {BY_TWO(a[0], a[2]), BY_TWO(a[1], a[3]),
					BY_TWO(a[4], a[6]), BY_TWO(a[5], a[7])};
			const square_row c[] = {LOW(b[0], b[4]), LOW(b[1], b[5]), LOW(b[2], b[6]),
					LOW(b[3], b[7]), HIGH(b[0], b[4]), HIGH(b[1], b[5]),
					HIGH(b[2], b[6]), HIGH(b[3], b[7])};
			for (int k = 0; k < SIDE; k++)
				memcpy(sink + (i + k) * p->row_sink + j, &c[k], sizeof(c[k]));
		}
}

static void transpose_float(const struct inner *p, const void *from, void *to)
{
	const uint32_t *source = from;
	uint32_t *sink = to;
	struct inner rest = *p;
	int64_t rows = p->n_row / SIDE, runs = p->n_run / SIDE;

	if (p->row_source != 1 || p->run_sink != 1) {
		transpose_32(p, from, to);
		return;
	}
	transpose_squares(p, source, sink, rows, runs);
	rest.n_run -= runs * SIDE; /* what is left of runs, then of rows */
	transpose_32(&rest, source + runs * SIDE * p->run_source, sink + runs * SIDE);
	rest.n_run = runs * SIDE;
	rest.n_row -= rows * SIDE;
	transpose_32(&rest, source + rows * SIDE, sink + rows * SIDE * p->row_sink);
}

typedef void (*bits_fn)(const struct inner *p, const void *from, void *to);

static void copy_run(const struct inner *p, const void *source, void *sink)
{
	static const bits_fn fn[] = {[1] = copy_run_8, [2] = copy_run_16, [4] = copy_run_32};
	int64_t size = ff_dtype_bytes(p->type);

	if (p->run_source == 1 && p->run_sink == 1 && p->n_run >= SHORT_RUN)
		memcpy(sink, source, (size_t)(p->n_run * size));
	else
		fn[size](p, source, sink);
}

/* What only has a meaning together lies together, so a scattered run is of single ones. */
static void add_run(const struct inner *p, const char *source, char *sink)
{
	int64_t n = p->n_run, a = p->run_source, b = p->run_sink, size = ff_dtype_bytes(p->type);
	const float *restrict from = (const float *)source;
	float *restrict to = (float *)sink;

	if (a == 1 && b == 1)
		ff_reduce(p->reduce, p->type, n, source, sink);
	else if (p->reduce == FF_REDUCE_SUM && p->type == FF_F32)
		for (int64_t i = 0; i < n; i++)
			to[i * b] += from[i * a];
	else
		for (int64_t i = 0; i < n; i++)
			ff_reduce(p->reduce, p->type, 1, source + i * a * size,
					sink + i * b * size);
}

static void copy_inner(const struct inner *p, const char *source, char *sink)
{
	static const bits_fn fn[] = {[1] = transpose_8, [2] = transpose_16, [4] = transpose_float};
	int64_t size = ff_dtype_bytes(p->type);
	struct inner row = *p;

	if (!p->add && p->n_row > 1) {
		fn[size](p, source, sink);
		return;
	}
	row.n_row = 1;
	for (int64_t i = 0; i < p->n_row; i++) {
		const char *from = source + i * p->row_source * size;
		char *to = sink + i * p->row_sink * size;

		if (p->add)
			add_run(&row, from, to);
		else
			copy_run(&row, from, to);
	}
}

/* Steps [first, end) of the outer axes, whose strides are bytes, counted as one loop. */
static void copy_steps(const struct ff_strided *s, const struct inner *p, int64_t first,
		int64_t end, const char *source, char *sink)
{
	int64_t at[FF_COPY_RANK] = {0}, rest = first;

	for (uint32_t i = s->rank; i-- > 0;) {
		at[i] = rest % s->n[i];
		rest /= s->n[i];
		source += at[i] * s->source[i];
		sink += at[i] * s->sink[i];
	}
	for (int64_t step = first; step < end; step++) {
		copy_inner(p, source, sink);
		for (uint32_t i = s->rank; i-- > 0;) {
			source += s->source[i];
			sink += s->sink[i];
			if (++at[i] < s->n[i])
				break;
			source -= at[i] * s->source[i];
			sink -= at[i] * s->sink[i];
			at[i] = 0;
		}
	}
}

/* Takes axis `i` out of the outer ones. */
static void drop_axis(struct ff_strided *s, uint32_t i)
{
	for (s->rank--; i < s->rank; i++) {
		s->n[i] = s->n[i + 1];
		s->source[i] = s->source[i + 1];
		s->sink[i] = s->sink[i + 1];
	}
}

static void copy_all(const struct ff_strided *s, const void *source, void *sink, struct inner p)
{
	struct ff_strided outer;
	int64_t volume = ff_strided_volume(s), steps = 1, chunks;

	if (volume == 0)
		return;
	ff_strided_normalise(s, &outer);
	p.n_run = outer.n[outer.rank - 1];
	p.run_source = outer.source[outer.rank - 1];
	p.run_sink = outer.sink[outer.rank - 1];
	outer.rank--;
	for (uint32_t i = 0; p.run_source != 1 && i < outer.rank; i++)
		if (outer.source[i] == 1) {
			p.n_row = outer.n[i];
			p.row_source = outer.source[i];
			p.row_sink = outer.sink[i];
			drop_axis(&outer, i);
			break;
		}
	for (uint32_t i = 0; i < outer.rank; i++) {
		steps *= outer.n[i];
		outer.source[i] *= ff_dtype_bytes(p.type);
		outer.sink[i] *= ff_dtype_bytes(p.type);
	}
	chunks = volume / CHUNK < MAX_CHUNKS ? volume / CHUNK : MAX_CHUNKS;
	chunks = chunks < 1 ? 1 : chunks < steps ? chunks : steps;
#pragma omp parallel for if (chunks > 1)
	for (int64_t i = 0; i < chunks; i++)
		copy_steps(&outer, &p, steps * i / chunks, steps * (i + 1) / chunks, source, sink);
}

void ff_strided_copy(const struct ff_strided *s, enum ff_dtype type, const void *source, void *sink)
{
	copy_all(s, source, sink, (struct inner){.n_row = 1, .type = type});
}

void ff_region_copy(const struct ff_copy *c)
{
	int64_t size = ff_dtype_bytes(c->type), source, sink;
	struct ff_strided s;

	if (ff_region_volume(&c->region) == 0)
		return;
	ff_strided_region(c->order, &c->source_region, &c->sink_region, &c->region, &s, &source,
			&sink);
	copy_all(&s, (const char *)c->source + source * size, (char *)c->sink + sink * size,
			(struct inner){.n_row = 1,
					.type = c->type,
					.add = c->add,
					.reduce = c->reduce});
}
