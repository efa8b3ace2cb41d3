/* Times of kernels on random data.  SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ff/philox.h"
#include "process/agree.h"
#include "stopwatch.h"

#define IN_ALL 10000  /* samples of all kernels, more or less */
#define FAR 4         /* times as much goes by as what is near has */
#define PACE_ITEMS 64 /* that the pace of a step is measured by */
#define PACE_US 2e6

/* Memory that lasts from kernel to kernel: what is read is random once and for
 * all, what is written lies apart, so that no value runs away; and so do whole numbers:
 * read as reals they are denormal, and kernels that meet them take several times as long. */
enum side { READ, WRITE, LABELS, SIDES };
/* Of a kernel, in a round each; one that the file knew before, and a second try. */
struct figures {
	struct ff_timing *of; /* room for all rounds and two more */
	uint32_t n;
};
/* One of those that are timed in turns. */
struct member {
	const struct ff_prof_item *item;
	struct ff_work work;
	struct ff_kernel *kernel;
	struct ff_kernel_io io;
	void *in[FF_MAX_INPUTS], *dout[FF_MAX_OUTPUTS]; /* io's, to be written */
	struct bench *bench;
};
struct bench {
	struct ff_prof *p;
	char *memory[SIDES];
	size_t bytes[SIDES], used[SIDES];
	struct member member[FF_PROF_TOGETHER];
	struct figures *together, *alone; /* by item */
	struct ff_timing *figures;        /* theirs */
};

/* Room in one of the memories, from a multiple of `align` on; the first walk (memory not there)
 * only counts. */
static void *carve_aligned(struct bench *b, enum side side, int64_t bytes, size_t align)
{
	size_t at = (b->used[side] + align - 1) / align * align;

	if (bytes <= 0)
		return NULL;
	b->used[side] = at + (size_t)ff_align64(bytes);
	return b->used[side] <= b->bytes[side] ? b->memory[side] + at : NULL;
}

static void *carve(struct bench *b, enum side side, int64_t bytes)
{
	return carve_aligned(b, side, bytes, 64);
}

static void *carve_region(
		struct bench *b, enum side side, enum ff_dtype type, const struct ff_region *r)
{
	return carve(b, side, ff_region_volume(r) * ff_dtype_bytes(type));
}

/* Behind what others of the group have. */
static void lay_out(struct member *m)
{
	struct bench *b = m->bench;
	const struct ff_work *w = &m->work;
	const struct ff_node *n = w->node;
	bool forward = w->pass == FF_FORWARD;
	struct ff_kernel_io *io = &m->io;

	memset(io, 0, sizeof(*io));
	memset(m->in, 0, sizeof(m->in));
	memset(m->dout, 0, sizeof(m->dout));
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct ff_operand *o = &n->in_map[i];

		io->in[i] = m->in[i] = carve_region(
				b, o->dtype == FF_I32 ? LABELS : READ, o->dtype, &w->in[i]);
		if (w->need_din[i])
			io->din[i] = carve_region(b, WRITE, (enum ff_dtype)o->gradient, &w->in[i]);
	}
	for (uint32_t i = 0; i < n->n_out; i++) {
		const struct ff_operand *o = &n->out_map[i];

		io->out[i] = carve_region(b, forward ? WRITE : READ, o->dtype, &w->out[i]);
		if (!forward && i + n->n_saved < n->n_out)
			io->dout[i] = m->dout[i] = carve_region(b, READ, o->dtype, &w->out[i]);
	}
	if (ff_work_sparse_rows(w))
		io->rows = carve(b, WRITE, ff_sparse_list_bytes(ff_work_sparse_rows(w)));
	io->workspace = carve_aligned(
			b, WRITE, b->p->backend->kernel.workspace(m->kernel), FF_WORKSPACE_ALIGN);
	io->seed = 1;
	io->training = true;
}

/* A number near `x` that is, read as two of bfloat16, twice that. */
static float in_halves(float x)
{
	uint32_t bits = (uint32_t)ff_bf16_from_f32(x) * 0x10001;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static int fill_random(struct bench *b, enum side side, struct ff_error *err)
{
	size_t n = b->bytes[side] / sizeof(float), chunk = 1 << 16;
	float *host = malloc(chunk * sizeof(*host));
	int code = FF_OK;

	if (!host)
		return ff_fail_memory(err);
	/* the same numbers again and again: only their range matters */
	ff_philox_uniform(1, 0, 0, chunk, host);
	for (size_t i = 0; i < chunk; i++)
		host[i] = in_halves(host[i] - 0.5f);
	for (size_t at = 0; at < n && code == FF_OK; at += chunk)
		code = b->p->backend->move.upload(b->p->stream,
				b->memory[side] + at * sizeof(float), host,
				(n - at < chunk ? n - at : chunk) * sizeof(float), err);
	if (code == FF_OK)
		code = b->p->backend->stream.drain(b->p->stream, err);
	free(host);
	return code;
}

static int reserve(struct bench *b, enum side side, struct ff_error *err)
{
	size_t bytes = b->used[side];
	void *memory;
	int code;

	if (bytes <= b->bytes[side])
		return FF_OK;
	b->p->backend->memory.free(b->p->dev, b->memory[side]);
	b->memory[side] = NULL;
	b->bytes[side] = 0;
	if ((code = b->p->backend->memory.alloc(b->p->dev, bytes, &memory, err)) < 0)
		return code;
	b->memory[side] = memory;
	b->bytes[side] = bytes;
	return fill_random(b, side, err);
}

/* How many different numbers there are: of labels, or of places that a route gave slots. */
static size_t classes_of(const struct ff_node *n)
{
	return (size_t)(n->op == FF_OP_INPUT ? n->attrs.input.classes : n->in_map[0].shape[1]);
}

/* Labels must be classes, not random bits. */
static int fill_labels(struct member *m, struct ff_error *err)
{
	struct ff_prof *p = m->bench->p;
	const struct ff_graph *g = &p->graph;
	const struct ff_node *n = m->work.node;
	int code = FF_OK;

	if (ff_op_row(n->op)->flags & FF_OP_LOSS)
		m->io.valid = ff_region_volume(&m->work.in[1]);
	for (uint32_t i = 0; i < n->n_data && code == FF_OK; i++) {
		const struct ff_value *t = &g->values[g->edges[n->in + i].value];
		size_t count = (size_t)ff_region_volume(&m->work.in[i]);
		int32_t *label;

		if (t->dtype != FF_I32 || !count)
			continue;
		label = malloc(count * sizeof(*label));
		if (!label)
			return ff_fail_memory(err);
		for (size_t k = 0; k < count; k++)
			label[k] = (int32_t)(k % classes_of(&g->nodes[t->producer]));
		code = p->backend->move.upload(
				p->stream, m->in[i], label, count * sizeof(*label), err);
		if (code == FF_OK)
			code = p->backend->stream.drain(p->stream, err);
		free(label);
	}
	return code;
}

/* What forward has saved is not random either: zeros are positions in a window.  Nor are lists of
 * rows. */
static int fill_saved(struct member *m, struct ff_error *err)
{
	struct ff_prof *p = m->bench->p;
	const struct ff_node *n = m->work.node;
	int code = FF_OK;

	for (uint32_t i = n->n_out - n->n_saved; i < n->n_out && code == FF_OK; i++)
		if (m->io.out[i])
			code = p->backend->move.fill(p->stream, m->io.out[i], n->out_map[i].dtype,
					ff_region_volume(&m->work.out[i]), 0, err);
	if (m->io.rows && code == FF_OK)
		code = p->backend->move.fill(p->stream, m->io.rows, FF_I32,
				ff_sparse_room(ff_work_sparse_rows(&m->work)), 0, err);
	return code == FF_OK ? p->backend->stream.drain(p->stream, err) : code;
}

static void lay_out_all(struct bench *b, uint32_t n)
{
	memset(b->used, 0, sizeof(b->used));
	for (uint32_t i = 0; i < n; i++)
		lay_out(&b->member[i]);
}

static void fill_work(const struct ff_prof_item *item, struct ff_work *ret)
{
	struct ff_region box;

	ff_config_box(&item->graph->nodes[item->node], &item->config, item->part, &box);
	ff_work_fill(item->graph, item->node, &box, item->pass, ret);
}

/* The n items from `first` on, each with memory of its own. */
static int prepare(struct bench *b, uint32_t first, uint32_t n, struct ff_error *err)
{
	struct ff_prof *p = b->p;
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		struct member *m = &b->member[i];

		*m = (struct member){.item = &p->item[first + i], .bench = b};
		fill_work(m->item, &m->work);
		code = p->backend->kernel.open(p->dev, &m->work, &m->kernel, err);
	}
	if (code < 0)
		return code;
	lay_out_all(b, n);
	for (int side = 0; side < SIDES; side++)
		if ((code = reserve(b, (enum side)side, err)) < 0)
			return code;
	lay_out_all(b, n);
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		code = fill_labels(&b->member[i], err);
		if (code == FF_OK)
			code = fill_saved(&b->member[i], err);
	}
	return code;
}

static int run_kernel(void *arg, struct ff_error *err)
{
	struct member *m = arg;
	struct ff_prof *p = m->bench->p;

	return p->backend->kernel.run(p->stream, m->kernel, &m->io, err);
}

static struct ff_hot hot_shard(void *at, const struct ff_region *r, uint32_t type)
{
	return (struct ff_hot){at, ff_region_volume(r) * ff_dtype_bytes((enum ff_dtype)type)};
}

/* Whether what goes by from one to the next is no more than a little of what the caches lose. */
static bool is_near(const struct ff_prof *p, const struct ff_prof_item *item, uint32_t value)
{
	uint32_t m = (uint32_t)(p->graph.batch / item->graph->batch);

	return ff_reuse_value(&p->reuse, m, item->node, item->pass, value) <=
	       ff_reuse_node(&p->reuse, m, item->node, item->pass) / FAR;
}

/* What tasks have touched not long ago, the last one last: what it reads that others have read or
 * written a little before; where a gradient goes, which is memory that others have just left, as
 * gradients live shortly; what the task before has just written. */
static void find_hot(const struct member *m, struct ff_timed *what)
{
	const struct ff_prof *p = m->bench->p;
	const struct ff_work *w = &m->work;
	const struct ff_node *n = w->node;
	const struct ff_edge *edge = &p->graph.edges[n->in];
	bool forward = w->pass == FF_FORWARD;
	uint32_t flags = ff_op_row(n->op)->flags, k = 0;

	for (uint32_t i = n->n_data; i-- > 0 && (forward || flags & FF_OP_BACKWARD_IN);)
		if (k < FF_HOT - 3 && ((forward && i == 0) || is_near(p, m->item, edge[i].value)))
			what->hot[k++] = hot_shard(m->in[i], &w->in[i], n->in_map[i].dtype);
	if (forward)
		return;
	if (flags & FF_OP_BACKWARD_OUT && is_near(p, m->item, n->out))
		what->hot[k++] = hot_shard(m->io.out[0], &w->out[0], n->out_map[0].dtype);
	what->hot[k++] = hot_shard(m->io.din[0], &w->in[0], n->in_map[0].gradient);
	what->hot[k++] = hot_shard(m->dout[0], &w->out[0], n->out_map[0].dtype);
}

static void add_figure(struct figures *f, const struct ff_timing *t)
{
	if (t->median_us > 0)
		f->of[f->n++] = *t;
}

/* A file that goes on being filled may have it disturbed, or not alone. */
static void add_known(struct bench *b, uint32_t item)
{
	const struct ff_prof_item *at = &b->p->item[item];
	const struct ff_cost *known = ff_costs_find(b->p->costs, at->key, at->reuse_bytes);
	struct ff_timing t;

	if (!known || known->reuse_bytes != at->reuse_bytes)
		return;
	t = (struct ff_timing){known->median_us, known->p10_us, known->p90_us, known->samples,
			known->disturbed};
	add_figure(&b->together[item], &t);
	t.median_us = known->alone_us;
	add_figure(&b->alone[item], &t);
}

/* What counts of it by now. */
static void set_cost(const struct bench *b, const struct member *m, struct ff_cost *ret)
{
	uint32_t item = (uint32_t)(m->item - b->p->item);
	const struct figures *alone = &b->alone[item];
	struct ff_timing t = ff_prof_middle(b->together[item].of, b->together[item].n);

	ret->median_us = t.median_us;
	ret->p10_us = t.p10_us;
	ret->p90_us = t.p90_us;
	ret->samples = t.samples;
	ret->disturbed = t.disturbed;
	ret->alone_us = alone->n ? ff_prof_middle(alone->of, alone->n).median_us : 0;
	ret->workspace_bytes = b->p->backend->kernel.workspace(m->kernel);
}

/* What single figures are off by, to one side or the other, matters the less the more of them a
 * step adds up. */
static uint32_t most_samples(const struct ff_prof *p)
{
	uint32_t each = IN_ALL / p->n_items;

	return ff_samples_of(each < FF_SAMPLES ? each : FF_SAMPLES, p->rounds);
}

/* In turns: all of them, or those that are also measured alone. */
static int time_members(struct bench *b, uint32_t n, bool alone, struct ff_error *err)
{
	struct ff_timed what[FF_PROF_TOGETHER];
	struct ff_timing t[FF_PROF_TOGETHER];
	struct figures *f[FF_PROF_TOGETHER];
	uint32_t k = 0;
	int code;

	for (uint32_t i = 0; i < n; i++) {
		struct member *m = &b->member[i];

		if (alone && !m->item->alone)
			continue;
		f[k] = &(alone ? b->alone : b->together)[m->item - b->p->item];
		what[k] = (struct ff_timed){.run = run_kernel,
				.arg = m,
				.reuse_bytes = m->item->reuse_bytes,
				.alone = alone,
				.most = most_samples(b->p)};
		find_hot(m, &what[k++]);
	}
	code = k ? ff_prof_time_group(b->p, what, k, t, err) : FF_OK;
	for (uint32_t i = 0; i < k && code == FF_OK; i++)
		add_figure(f[i], &t[i]);
	return code;
}

static int put_cost(struct bench *b, const struct member *m, struct ff_error *err)
{
	struct ff_cost cost = {.key = m->item->key, .reuse_bytes = m->item->reuse_bytes};

	set_cost(b, m, &cost);
	return ff_costs_put(b->p->costs, &cost, err);
}

static void close_members(struct bench *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (b->member[i].kernel)
			b->p->backend->kernel.close(b->member[i].kernel);
		b->member[i].kernel = NULL;
	}
}

static int measure(struct bench *b, uint32_t first, uint32_t n, struct ff_error *err)
{
	int code = ff_agree_code(b->p->comm, prepare(b, first, n, err), err);

	for (uint32_t i = first; i < first + n; i++)
		if (!b->together[i].n)
			add_known(b, i);
	if (code == FF_OK)
		code = time_members(b, n, false, err);
	if (code == FF_OK && !b->p->end)
		code = time_members(b, n, true, err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		code = put_cost(b, &b->member[i], err);
	close_members(b, n);
	return code;
}

static int measure_items(struct bench *b, uint32_t first, uint32_t n, double share,
		const char *what, struct ff_error *err)
{
	struct ff_prof *p = b->p;
	int code;

	if (p->comm->rank == 0)
		ff_progress_show(&p->progress, share, (ff_clock_us() - p->start_us) * 1e-6,
				"%s %u/%u  %.60s", what, first + 1, p->n_items, p->item[first].key);
	code = measure(b, first, n, err);
	return code == FF_OK ? ff_prof_save(p, false, err) : code;
}

/* How many from `first` on are timed in turns: small ones, whose sweeps take longer than they do,
 * and which together need no more memory than large ones. */
static uint32_t count_together(const struct ff_prof *p, uint32_t first)
{
	const struct ff_prof_item *item = &p->item[first];
	int64_t reuse_bytes = item->reuse_bytes, bytes = 0;
	uint32_t n = 0;

	while (ff_prof_keeps_nothing(p, reuse_bytes) && n < FF_PROF_TOGETHER &&
			first + n < p->n_items && item[n].reuse_bytes == reuse_bytes) {
		struct ff_work work;

		fill_work(&item[n], &work);
		bytes += ff_work_bytes(&work);
		if (bytes > reuse_bytes / FAR)
			break;
		n++;
	}
	return n ? n : 1;
}

static bool is_disturbed(const struct ff_prof *p, uint32_t item)
{
	const struct ff_prof_item *at = &p->item[item];
	const struct ff_cost *cost = ff_costs_find(p->costs, at->key, at->reuse_bytes);

	return cost && cost->disturbed;
}

/* What passes, such as a backup, has passed when all else is measured; on a machine that
 * is always busy a second try would be no better. */
static int try_again(struct bench *b, struct ff_error *err)
{
	struct ff_prof *p = b->p;
	uint32_t n = 0;
	int code = FF_OK;

	for (uint32_t i = 0; i < p->n_items; i++)
		n += is_disturbed(p, i);
	for (uint32_t i = 0; i < p->n_items && code == FF_OK && !p->end && 2 * n <= p->n_items; i++)
		if (is_disturbed(p, i))
			code = measure_items(b, i, 1, (double)i / p->n_items, "again", err);
	return code;
}

/* Everything, as often as asked for: another program's minute spoils one round of a kernel. */
static int measure_rounds(struct bench *b, struct ff_error *err)
{
	struct ff_prof *p = b->p;
	int code = FF_OK;

	for (uint32_t round = 0; round < p->rounds; round++)
		for (uint32_t i = 0, n; i < p->n_items && code == FF_OK && !p->end; i += n) {
			double done = (double)round * p->n_items + i;

			n = count_together(p, i);
			code = measure_items(b, i, n, done / ((double)p->rounds * p->n_items),
					"kernel", err);
			p->tally.kernels += code == FF_OK && !round ? n : 0;
		}
	return code;
}

/* Room for what each item is measured as: all figures in one array. */
static int open_figures(struct bench *b, struct ff_error *err)
{
	size_t items = b->p->n_items, each = b->p->rounds + 2;
	struct ff_timing *all = malloc((2 * items * each + 1) * sizeof(*all));

	b->figures = all;
	b->together = calloc(2 * items + 1, sizeof(*b->together));
	if (!all || !b->together)
		return ff_fail_memory(err);
	b->alone = b->together + items;
	for (size_t i = 0; i < 2 * items; i++)
		b->together[i].of = all + i * each;
	return FF_OK;
}

static void close_bench(struct bench *b)
{
	for (int side = 0; side < SIDES; side++)
		b->p->backend->memory.free(b->p->dev, b->memory[side]);
	free(b->together);
	free(b->figures);
	free(b);
}

/* The second run of an item: the first one makes what it needs. */
static int run_twice(struct bench *b, uint32_t item, double *us, struct ff_error *err)
{
	struct ff_prof *p = b->p;
	int code = prepare(b, item, 1, err);

	for (int i = 0; i < 2 && code == FF_OK; i++)
		code = ff_watch_time(&p->watch, run_kernel, &b->member[0], us, err);
	return code;
}

/* Some of all items, evenly spread, for as long as is worth it on the slowest rank. */
int ff_prof_pace(struct ff_prof *p, struct ff_error *err)
{
	struct bench *b = calloc(1, sizeof(*b));
	uint32_t step = p->n_items / PACE_ITEMS + 1;
	double start = ff_clock_us(), spent = 0, all_us = 0, all_bytes = 0;
	int code = ff_agree_code(p->comm, b ? FF_OK : ff_fail_memory(err), err);

	if (b)
		b->p = p;
	for (uint32_t i = 0; i < p->n_items && code == FF_OK && spent < PACE_US; i += step) {
		double us = 0;

		code = ff_agree_code(p->comm, run_twice(b, i, &us, err), err);
		all_us += us;
		all_bytes += (double)ff_work_bytes(&b->member[0].work);
		close_members(b, 1);
		spent = ff_clock_us() - start;
		if (code == FF_OK)
			code = ff_agree_max(p->comm, &spent, 1, err);
	}
	if (code == FF_OK)
		code = ff_agree_max(p->comm, &all_us, 1, err);
	if (code == FF_OK && all_bytes > 0)
		p->caches.us_per_byte = all_us / all_bytes;
	if (b)
		close_bench(b);
	return code;
}

int ff_prof_kernels(struct ff_prof *p, struct ff_error *err)
{
	struct bench *b = calloc(1, sizeof(*b));
	int code = FF_OK;

	if (!b)
		return ff_fail_memory(err);
	b->p = p;
	code = open_figures(b, err);
	if (code == FF_OK)
		code = measure_rounds(b, err);
	if (code == FF_OK)
		code = try_again(b, err);
	close_bench(b);
	return code;
}
