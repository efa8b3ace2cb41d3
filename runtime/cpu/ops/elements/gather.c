/* Elements of an axis in another order; the gradient of each is the sum over where it went.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "kernels/indices.h"

#define RUN 256 /* elements that are added up at a time */

struct gather {
	enum ff_dtype type;
	struct ff_gather g;
	int32_t table[];
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct gather *s = k->state;
	const struct ff_gather *g = &s->g;
	size_t bytes = (size_t)(g->inner * ff_dtype_bytes(s->type));

	(void)err;
#pragma omp parallel for if (g->outer * g->n * g->inner >= FF_CPU_PARALLEL)
	for (int64_t row = 0; row < g->outer * g->n; row++) {
		int64_t from = row / g->n * g->rows + s->table[row % g->n];

		memcpy(ff_real_out(s->type, io->out[0], row * g->inner),
				ff_real_in(s->type, io->in[0], from * g->inner), bytes);
	}
	return FF_OK;
}

/* The gradient of row `row` of the input. */
FF_REAL_LOOP void add_rows(
		enum ff_dtype type, const struct gather *s, int64_t row, const void *from, void *to)
{
	const struct ff_gather *g = &s->g;
	const int32_t *first = s->table + g->n + row % g->rows,
		      *list = s->table + g->n + g->rows + 1;
	int64_t outer = row / g->rows * g->n;
	float sum[RUN];

	for (int64_t i = 0; i < g->inner; i += RUN) {
		int64_t n = g->inner - i < RUN ? g->inner - i : RUN;

		memset(sum, 0, sizeof(sum));
		for (int32_t k = first[0]; k < first[1]; k++)
			for (int64_t j = 0; j < n; j++)
				sum[j] += ff_real_get(
						type, from, (outer + list[k]) * g->inner + i + j);
		for (int64_t j = 0; j < n; j++)
			ff_real_put(type, to, row * g->inner + i + j, sum[j]);
	}
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct gather *s = k->state;
	int64_t rows = s->g.outer * s->g.rows;

	(void)err;
#pragma omp parallel for if (rows * s->g.inner >= FF_CPU_PARALLEL)
	for (int64_t row = 0; row < rows; row++)
		FF_REAL_CALL(s->type, add_rows, s, row, io->dout[0], io->din[0]);
	return FF_OK;
}

int ff_cpu_gather_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ff_gather g;
	struct gather *s;

	ff_gather_fill(w, &g);
	s = ff_kernel_state(k, sizeof(*s) + (size_t)ff_gather_numbers(&g) * sizeof(int32_t), err);
	if (!s)
		return FF_E_NOMEM;
	s->type = ff_work_type(w);
	s->g = g;
	ff_gather_table(w, &g, s->table);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
