/* Attention by its definition.  SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include <math.h>
#include <string.h>

/* Where row `row` of head `head` of operand `o` begins. */
static int64_t row_at(const struct trial *t, const struct ff_operand *o, int32_t sample,
		int32_t row, int32_t head)
{
	const int32_t at[] = {sample, row, head * t->size};

	return index_of(o, at);
}

double dot(const struct trial *t, const double *x, int64_t i, const double *y, int64_t k)
{
	double sum = 0;

	for (int32_t d = 0; d < t->size; d++)
		sum += x[i + d] * y[k + d];
	return sum;
}

int64_t query_of(const struct trial *t, const int32_t *at)
{
	return row_at(t, t->node->in_map, at[0], at[2], at[1]);
}
static int64_t key_of(const struct trial *t, const int32_t *at)
{
	return row_at(t, &t->node->in_map[KEY], at[0], at[3], at[1] / t->shared);
}
int64_t pair_of(const struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;

	return ((int64_t)at[0] * n->dim[1].extent + at[1]) * n->dim[2].extent + at[2];
}

double score(const struct trial *t, const int32_t *at)
{
	double s = t->scale * dot(t, t->in[QUERY], query_of(t, at), t->in[KEY], key_of(t, at));

	if (t->node->attrs.attention.causal && at[3] > at[2])
		return -INFINITY;
	return t->masked ? s + t->in[MASK][index_of(&t->node->in_map[MASK], at)] : s;
}

/* 0 in rows that see nothing. */
static double weight(const struct trial *t, const int32_t *at)
{
	if (t->log_sum[pair_of(t, at)] == -INFINITY)
		return 0;
	return exp(score(t, at) - t->log_sum[pair_of(t, at)]);
}

/* What a weight is times: the element of a tensor of all scores, by a dropout's rule. */
static double factor(const struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	double p = n->attrs.attention.dropout, u;
	uint64_t i = t->micro, stream;

	if (p == 0 || !t->training)
		return 1;
	for (uint32_t d = 0; d < 4; d++)
		i = i * (uint64_t)n->dim[d].extent + (uint64_t)at[d];
	stream = ff_philox_stream((uint32_t)(n - t->graph.nodes), (uint32_t)t->step);
	u = (ff_philox_at(t->seed, stream, i) >> 8) * 0x1p-24;
	return u < (double)(float)p ? 0 : 1 / (1 - p);
}

void define_rows(struct trial *t)
{
	struct ff_region all = {.rank = 4};
	int64_t rows;
	int32_t at[FF_MAX_DIMS] = {0};

	for (uint32_t d = 0; d < 4; d++)
		all.hi[d] = t->node->dim[d].extent;
	rows = ff_region_volume(&all) / t->node->dim[3].extent;
	t->log_sum = new_array(t, rows);
	t->sum = new_array(t, rows);
	do
		t->log_sum[pair_of(t, at)] += exp(score(t, at));
	while (next(&all, at));
	for (int64_t i = 0; i < rows; i++)
		t->log_sum[i] = log(t->log_sum[i]);
	memset(at, 0, sizeof(at));
	do
		t->sum[pair_of(t, at)] +=
				weight(t, at) * factor(t, at) *
				dot(t, t->dout, query_of(t, at), t->in[VALUE], key_of(t, at));
	while (next(&all, at));
}

void define(struct trial *t, double *out, double *din[3])
{
	int32_t at[FF_MAX_DIMS];

	memcpy(at, t->box.lo, sizeof(at));
	do {
		int64_t q = query_of(t, at), k = key_of(t, at);
		double f = factor(t, at), w = f * weight(t, at);
		double slope = weight(t, at) * t->scale *
			       (f * dot(t, t->dout, q, t->in[VALUE], k) - t->sum[pair_of(t, at)]);

		for (int32_t d = 0; d < t->size; d++) {
			t->terms[0][q + d] += fabs(w * t->in[VALUE][k + d]);
			t->terms[1][q + d] += fabs(slope * t->in[KEY][k + d]);
			t->terms[2][k + d] += fabs(slope * t->in[QUERY][q + d]);
			t->terms[3][k + d] += fabs(w * t->dout[q + d]);
			out[q + d] += w * t->in[VALUE][k + d];
			din[QUERY][q + d] += slope * t->in[KEY][k + d];
			din[KEY][k + d] += slope * t->in[QUERY][q + d];
			din[VALUE][k + d] += w * t->dout[q + d];
		}
	} while (next(&t->box, at));
}
