/* Ranks: how many classes a test has before each label, and whether they are few enough.  A loss
 * that is cut by class knows those of its own; ranks of processes are added up by the host, once a
 * batch, and only there.  SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

/* One loss task here. */
struct ranked {
	struct ff_bound_task *bound;
	struct ff_host *host;
	struct ff_region labels; /* what its part has of a micro-batch's */
	int64_t first;           /* labels of the global batch before that micro-batch */
	int64_t at;              /* its first one in a slot */
	bool leads;              /* has class 0 */
};

struct ff_ranks {
	uint32_t n;
	struct ranked *of;
	int64_t floats;
	float *slot[2]; /* by the step's parity: pinned where the backend pins */
	float *batch;   /* by label of the global batch: how many are before it, and 1 */
};

static const struct ff_node *loss_of(const struct ff_executor *x, uint32_t loss)
{
	return &x->s->graph->nodes[x->s->graph->loss[loss]];
}

bool ff_ranks_has(const struct ff_executor *x, uint32_t loss)
{
	const struct ff_node *n = loss_of(x, loss);

	return x->opt.top && ff_op_row(n->op)->predicts == FF_PREDICTS_CLASSES &&
	       (uint32_t)n->in_map[0].shape[1] > x->opt.top;
}

static int64_t labels_of(const struct ff_executor *x, uint32_t loss)
{
	const struct ff_operand *labels = &loss_of(x, loss)->in_map[1];

	return ff_shape_volume(labels->rank, labels->shape);
}

/* Of several processes the same. */
static bool is_cut(const struct ff_executor *x, uint32_t loss)
{
	const struct ff_config *c = &x->s->config[x->s->graph->loss[loss]];
	const struct ff_node *n = loss_of(x, loss);

	for (uint32_t i = 0; i < n->n_dims; i++)
		if (n->dim[i].label == FF_DIM_PARAMETER && c->degree[i] > 1)
			return true;
	return false;
}

static int open_one(struct ff_executor *x, uint32_t task, struct ff_work *w, struct ff_error *err)
{
	const struct ff_task *t = &x->s->tasks[task];
	struct ff_ranks *r = x->losses.ranks;
	struct ranked *one = &r->of[r->n];
	void *memory;
	int code;

	ff_task_work(x->s, t, w);
	*one = (struct ranked){.bound = &x->bound[task],
			.host = &x->host[x->host_of[t->device]],
			.labels = w->in[1],
			.first = t->micro * labels_of(x, x->bound[task].loss),
			.at = r->floats,
			.leads = w->in[0].lo[1] == 0};
	code = x->b->memory.alloc(one->host->dev,
			(size_t)ff_region_volume(&one->labels) * sizeof(*one->bound->rank), &memory,
			err);
	if (code < 0)
		return code;
	one->bound->rank = memory;
	one->bound->rank_at = r->floats;
	r->floats += ff_region_volume(&one->labels);
	r->n++;
	return FF_OK;
}

static int open_slots(struct ff_executor *x, struct ff_error *err)
{
	size_t bytes = (size_t)(x->losses.ranks->floats ? x->losses.ranks->floats : 1) *
		       sizeof(float);
	void *memory = NULL;
	int code;

	for (int i = 0; i < 2; i++) {
		code = FF_OK;
		if (x->b->memory.pin && x->n_hosts)
			code = x->b->memory.pin(x->host[0].dev, bytes, &memory, err);
		else if (!(memory = malloc(bytes)))
			code = ff_fail_memory(err);
		if (code < 0)
			return code;
		x->losses.ranks->slot[i] = memory;
	}
	return FF_OK;
}

int ff_ranks_open(struct ff_executor *x, struct ff_error *err)
{
	struct ff_work *w = ff_arena_alloc(&x->arena, sizeof(*w));
	struct ff_ranks *r = ff_arena_alloc(&x->arena, sizeof(*r));
	int64_t most = 1;
	int code = FF_OK;

	if (x->losses.ranks || !x->opt.top)
		return FF_OK;
	if (!w || !r)
		return ff_fail_memory(err);
	x->losses.ranks = r;
	for (uint32_t i = 0; i < x->s->graph->n_losses; i++)
		most = labels_of(x, i) > most ? labels_of(x, i) : most;
	r->of = ff_arena_array(&x->arena, x->losses.n_scores, sizeof(*r->of));
	r->batch = ff_arena_array(
			&x->arena, (size_t)most * x->s->strategy->micro_batches, sizeof(*r->batch));
	if (!r->of || !r->batch)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->losses.n_scores && code == FF_OK; i++)
		if (ff_ranks_has(x, x->bound[x->losses.scored[i]].loss))
			code = open_one(x, x->losses.scored[i], w, err);
	return code < 0 ? code : open_slots(x, err);
}

void ff_ranks_close(struct ff_executor *x)
{
	struct ff_ranks *r = x->losses.ranks;

	for (uint32_t i = 0; r && i < r->n; i++)
		x->b->memory.free(r->of[i].host->dev, r->of[i].bound->rank);
	for (int i = 0; r && i < 2; i++) {
		if (r->slot[i] && x->b->memory.pin && x->n_hosts)
			x->b->memory.unpin(x->host[0].dev, r->slot[i]);
		else
			free(r->slot[i]);
	}
}

int ff_ranks_download(struct ff_executor *x, struct ff_bound_task *j, struct ff_error *err)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < x->losses.ranks->n; i++)
		if (x->losses.ranks->of[i].bound == j)
			n = ff_region_volume(&x->losses.ranks->of[i].labels);
	return x->b->move.download(j->stream, x->losses.ranks->slot[x->step & 1] + j->rank_at,
			j->rank, (size_t)n * sizeof(*j->rank), err);
}

/* To their places in the batch. */
static void place(const struct ff_executor *x, const struct ranked *one, const float *from)
{
	const struct ff_operand *labels = &loss_of(x, one->bound->loss)->in_map[1];
	const struct ff_region *r = &one->labels;

	for (int64_t i = 0; i < ff_region_volume(r); i++) {
		int64_t rest = i, at = 0, stride = 1;

		for (uint32_t axis = r->rank; axis-- > 0;) {
			int32_t n = ff_region_size(r, axis);

			at += (r->lo[axis] + rest % n) * stride;
			stride *= labels->shape[axis];
			rest /= n;
		}
		x->losses.ranks->batch[one->first + at] += from[i] + (one->leads ? 1 : 0);
	}
}

int ff_ranks_keep(struct ff_executor *x, uint32_t parity, struct ff_error *err)
{
	struct ff_ranks *r = x->losses.ranks;
	int code = FF_OK;

	for (uint32_t loss = 0; loss < x->s->graph->n_losses && code == FF_OK; loss++) {
		int64_t n = labels_of(x, loss) * x->s->strategy->micro_batches;
		bool cut = is_cut(x, loss);

		if (!ff_ranks_has(x, loss))
			continue;
		memset(r->batch, 0, (size_t)n * sizeof(*r->batch));
		for (uint32_t i = 0; i < r->n; i++)
			if (r->of[i].bound->loss == loss)
				place(x, &r->of[i], r->slot[parity] + r->of[i].at);
		if (cut)
			code = x->comm->sum(x->comm, r->batch, n, err);
		/* each label once: by whoever has it, or by the first of those that have all */
		for (int64_t i = 0; i < n && (!cut || x->comm->rank == 0); i++)
			x->losses.tested[loss].top +=
					r->batch[i] > 0 && r->batch[i] <= (float)x->opt.top;
	}
	return code;
}
