/* Binding: every task of the schedule gets its pointers, its kernel, its stream
 * and what it waits for, once, before the first step.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bind.h"

#include <inttypes.h>
#include <string.h>

#include "exec/core/fuse.h"
#include "exec/messages/address.h"
#include "exec/messages/load.h"
#include "exec/messages/transfer.h"
#include "ff/arrays.h"
#include "ff/block.h"
#include "ff/bucket_layout.h"
#include "ff/device_list.h"
#include "ff/instance.h"
#include "sums.h"
#include "waiting.h"

static uint32_t bucket_position(const struct ff_bucket *b, uint32_t device)
{
	return ff_device_index(b->device, b->n_devices, device);
}

/* Where the rows of the sparse gradient in buffer `buffer` are listed; NULL: there is none. */
static int32_t *rows_of(const struct ff_executor *x, uint32_t buffer, uint32_t param,
		const struct ff_region *region)
{
	const struct ff_schedule *s = x->s;
	const struct ff_buffer *at = &s->buffers[buffer];
	const struct ff_bucket *b;

	if (at->bucket >= s->n_buckets)
		return NULL;
	b = &s->buckets[at->bucket];
	for (uint32_t i = b->first_shard; i < b->first_shard + b->n_shards; i++)
		if (s->shards[i].node == param && s->shards[i].sparse_rows &&
				ff_region_equal(&s->shards[i].region, region))
			return (int32_t *)(ff_address_bucket(x, at->bucket,
							   bucket_position(b, at->device)) +
					   s->shards[i].list);
	return NULL;
}

static void bind_io(const struct ff_executor *x, const struct ff_task *t, const struct ff_work *w,
		struct ff_kernel_io *io)
{
	const struct ff_schedule *s = x->s;
	const struct ff_node *n = w->node;
	uint32_t flags = ff_op_row(n->op)->flags;
	bool forward = ff_task_pass(t) == FF_FORWARD;

	for (uint32_t i = 0; i < n->n_in; i++) {
		bool read = forward || i >= n->n_data || (flags & FF_OP_BACKWARD_IN);

		read = read && ff_task_reads(s, t, i);

		if (!ff_region_volume(&w->in[i]))
			continue;
		if (read)
			io->in[i] = ff_address_buffer(x, ff_task_in(s, t, i)[t->part]);
		if (w->need_din[i])
			io->din[i] = ff_address_buffer(x, ff_task_din(s, t, i)[t->part]);
	}
	for (uint32_t k = 0; k < n->n_out; k++) {
		bool saved = k + n->n_saved >= n->n_out;

		if (!ff_region_volume(&w->out[k]))
			continue;
		if (forward || saved || (flags & FF_OP_BACKWARD_OUT))
			io->out[k] = ff_address_buffer(x, ff_task_out(s, t, k)[t->part]);
		if (!forward && !saved)
			io->dout[k] = ff_address_buffer(x, ff_task_dout(s, t, k)[t->part]);
	}
	if (ff_work_sparse_rows(w))
		io->rows = rows_of(x, ff_task_din(s, t, n->n_data)[t->part],
				ff_edge_source(s->graph, n->in + n->n_data), &w->in[n->n_data]);
	if (s->workspace_bytes[t->device] > 0)
		io->workspace = x->host[x->host_of[t->device]].memory;
	io->seed = x->opt.seed;
}

/* Gradients that are added to others: those of parameters the kernel writes behind its own
 * scratch, `at`, those of data where they have their place, and they are added from there.  Returns
 * the scratch used in all. */
static int64_t bind_additions(struct ff_executor *x, const struct ff_task *t,
		const struct ff_work *w, int64_t at, struct ff_bound_task *j)
{
	const struct ff_node *n = w->node;

	for (uint32_t i = 0; i < n->n_in; i++) {
		struct ff_copy *c = &j->addition[j->n_additions];
		enum ff_dtype type = (enum ff_dtype)n->in_map[i].gradient;
		const uint32_t *sum = ff_task_sum(x->s, t, i);

		if (!(sum || ff_task_adds(x->s, t, i)) || !j->io->din[i])
			continue;
		*c = (struct ff_copy){.source = sum ? j->io->din[i] : (char *)j->io->workspace + at,
				.sink = sum ? ff_address_buffer(x, sum[t->part]) : j->io->din[i],
				.order = n->in_map[i].order,
				.source_region = w->in[i],
				.sink_region = w->in[i],
				.region = w->in[i],
				.type = type,
				.add = true};
		j->n_additions++;
		if (sum)
			continue;
		j->io->din[i] = (char *)j->io->workspace + at;
		at += ff_align64(ff_region_volume(&w->in[i]) * ff_dtype_bytes(type));
	}
	return at;
}

static int bind_part(struct ff_executor *x, const struct ff_task *t, struct ff_bound_task *j,
		struct ff_error *err)
{
	const struct ff_node *n = &x->s->graph->nodes[t->node];
	struct ff_host *h = &x->host[x->host_of[t->device]];
	int64_t need, have = x->s->workspace_bytes[t->device];
	struct ff_work w;
	int code;

	ff_task_work(x->s, t, &w);
	j->io = ff_arena_alloc(&x->arena, sizeof(*j->io));
	j->addition = ff_arena_array(&x->arena, n->n_in, sizeof(*j->addition));
	if (!j->io || !j->addition)
		return ff_fail_memory(err);
	bind_io(x, t, &w, j->io);
	if ((code = x->b->kernel.open(h->dev, &w, &j->kernel, err)) < 0)
		return code;
	need = bind_additions(x, t, &w, ff_align64(x->b->kernel.workspace(j->kernel)), j);
	if (need > have)
		return ff_fail(err, FF_E_RUN,
				"operator %s needs %" PRId64
				" bytes of scratch, but device %u has %" PRId64,
				n->name, need, t->device, have);
	/* of replicas, one is counted */
	if (t->phase == FF_PHASE_FORWARD && (ff_op_row(n->op)->flags & FF_OP_LOSS) &&
			t->part < ff_config_cells(&x->s->config[t->node])) {
		j->score = ff_arena_array(&x->arena, FF_SCORES, sizeof(*j->score));
		if (!j->score)
			return ff_fail_memory(err);
		j->score_index = x->losses.n_scores;
		x->losses.scored[x->losses.n_scores++] = (uint32_t)(t - x->s->tasks);
	}
	while (j->loss + 1 < x->s->graph->n_losses && x->s->graph->loss[j->loss] != t->node)
		j->loss++;
	j->io->loss = j->loss;
	return FF_OK;
}

/* Where the squares of all gradients are added up on a device; NULL where nothing is clipped. */
static float *squares_at(const struct ff_executor *x, uint32_t device)
{
	const struct ff_bucket *b;

	if (x->s->clip == FF_NONE)
		return NULL;
	b = &x->s->buckets[x->s->clip];
	return (float *)(ff_address_bucket(x, x->s->clip, bucket_position(b, device)) +
			 ff_bucket_arrays(b, x->s->optimizer, x->s->graph->dtype).gradients);
}

/* Where an array of a bucket has element `first`. */
static float *element(
		const struct ff_executor *x, const struct ff_task *t, uint32_t array, int64_t first)
{
	const struct ff_bucket *b = &x->s->buckets[t->bucket];
	int64_t begin, end;
	float *at = ff_address_array(
			x, t->bucket, bucket_position(b, t->device), array, &begin, &end);

	return at + (first - begin);
}

static int bind_norm(struct ff_executor *x, const struct ff_task *t, struct ff_bound_task *j,
		struct ff_error *err)
{
	const struct ff_bucket *b = &x->s->buckets[t->bucket];
	struct ff_host *h = &x->host[x->host_of[t->device]];
	int64_t first, end;

	j->norm = ff_arena_alloc(&x->arena, sizeof(*j->norm));
	if (!j->norm)
		return ff_fail_memory(err);
	/* of a flat bucket that is the device's run */
	ff_norm_share(b, bucket_position(b, t->device), &first, &end);
	*j->norm = (struct ff_squares){.gradient = element(x, t, FF_ARRAY_GRADIENTS, first),
			.n = (size_t)(end - first),
			.sum = squares_at(x, t->device),
			.scratch = h->memory,
			.first = !h->normed};
	h->normed = true;
	return FF_OK;
}

/* The elements of a bucket from `first` to `end`, all of one group, and of the device's run. */
static struct ff_update update_of(const struct ff_executor *x, const struct ff_task *t,
		int64_t first, int64_t end, uint32_t group)
{
	const struct ff_bucket *b = &x->s->buckets[t->bucket];
	int64_t begin, stop;
	uint16_t *rounded = ff_address_rounded(
			x, t->bucket, bucket_position(b, t->device), &begin, &stop);
	struct ff_update u = {.optimizer = x->s->optimizer,
			.weight = element(x, t, FF_ARRAY_WEIGHTS, first),
			.gradient = element(x, t, FF_ARRAY_GRADIENTS, first),
			.rounded = rounded ? rounded + (first - begin) : NULL,
			.n = (size_t)(end - first),
			.group = group,
			.times = b->averaged ? b->n_devices : 0,
			.squares = squares_at(x, t->device),
			.clip = (float)x->opt.clip};

	for (uint32_t i = 0; i < x->s->optimizer->states; i++)
		u.state[i] = element(x, t, FF_ARRAY_STATES + i, first);
	return u;
}

/* Of a sparse gradient only rows that were looked up are updated, unless the group's settings
 * change the others, too. */
static bool is_sparse(const struct ff_executor *x, const struct ff_shard *shard)
{
	return shard->sparse_rows &&
	       ff_optimizer_skips(x->s->optimizer, x->opt.groups.setting[shard->group]);
}

/* The update of `shard` as that of its rows. */
static void set_rows(const struct ff_executor *x, const struct ff_task *t,
		const struct ff_shard *shard, struct ff_update *u)
{
	uint32_t position = bucket_position(&x->s->buckets[t->bucket], t->device);

	u->rows = (const int32_t *)(ff_address_bucket(x, t->bucket, position) + shard->list);
	u->n_rows = shard->sparse_rows;
	u->features = ff_region_size(&shard->region, 1);
}

/* Shards of one group are neighbours. */
static int bind_update(struct ff_executor *x, const struct ff_task *t, struct ff_bound_task *j,
		struct ff_error *err)
{
	const struct ff_bucket *b = &x->s->buckets[t->bucket];
	const struct ff_shard *shard = x->s->shards + b->first_shard;
	uint32_t first = 0;
	int64_t run, run_end;

	ff_address_run(b, bucket_position(b, t->device), &run, &run_end);
	j->update = ff_arena_array(&x->arena, b->n_shards, sizeof(*j->update));
	if (!j->update)
		return ff_fail_memory(err);
	for (uint32_t i = 1; i <= b->n_shards; i++) {
		bool last = i == b->n_shards;
		int64_t from, to;

		if (!last && shard[i].group == shard[first].group && !is_sparse(x, &shard[i]) &&
				!is_sparse(x, &shard[first]))
			continue;
		from = shard[first].offset / FF_F32_BYTES;
		to = (last ? b->bytes : shard[i].offset) / FF_F32_BYTES;
		from = from > run ? from : run;
		to = to < run_end ? to : run_end;
		if (from < to)
			j->update[j->n_updates++] = update_of(x, t, from, to, shard[first].group);
		if (is_sparse(x, &shard[first]))
			set_rows(x, t, &shard[first], &j->update[j->n_updates - 1]);
		first = i;
	}
	return FF_OK;
}

/* The hosted ones among the devices that `t` occupies. */
static int bind_hosts(struct ff_executor *x, const struct ff_task *t, struct ff_bound_task *j,
		struct ff_error *err)
{
	const uint16_t *device;
	uint16_t one;
	uint32_t n = ff_task_devices(t, &device, &one);

	j->hosts = ff_arena_array(&x->arena, n, sizeof(*j->hosts));
	if (!j->hosts)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++)
		if (x->host_of[device[i]] != FF_NONE)
			j->hosts[j->n_hosts++] = x->host_of[device[i]];
	return FF_OK;
}

/* Without overlap all transfers go among what the first device computes (issue.c). */
static struct ff_stream *stream_of(
		const struct ff_executor *x, const struct ff_task *t, const struct ff_bound_task *j)
{
	struct ff_stream *compute = x->host[j->hosts[0]].compute;
	enum ff_lane_class lane;

	if (!t->move)
		return compute;
	lane = ff_move_lane(x->s->graph, t->edge, t->move);
	if (lane == FF_LANE_COMPUTE && x->s->machine->overlap)
		return compute;
	return lane == FF_LANE_MESSAGE ? x->messages : x->transfers;
}

static int bind_task(struct ff_executor *x, const struct ff_task *t, struct ff_bound_task *j,
		struct ff_error *err)
{
	static int (*const bind[])(struct ff_executor *, const struct ff_task *,
			struct ff_bound_task *, struct ff_error *) = {[FF_COMPUTE_PART] = bind_part,
			[FF_COMPUTE_UPDATE] = bind_update,
			[FF_COMPUTE_NORM] = bind_norm,
			[FF_COMPUTE_DELAY] = ff_waiting_bind};
	int code = bind_hosts(x, t, j, err);

	j->here = j->n_hosts > 0;
	j->forward = t->phase == FF_PHASE_FORWARD;
	if (code < 0 || !j->here)
		return code;
	j->stream = stream_of(x, t, j);
	return t->move ? ff_transfer_build(x, t, &j->transfer, err)
		       : bind[t->compute](x, t, j, err);
}

/* Streams run in order, so waiting for the last of the tasks that a task needs
 * on each other stream is enough. */
static int bind_waits(struct ff_executor *x, uint32_t task, struct ff_error *err)
{
	const struct ff_task *t = &x->s->tasks[task];
	struct ff_bound_task *j = &x->bound[task];
	int code;

	j->wait = ff_arena_array(&x->arena, t->n_deps, sizeof(*j->wait));
	if (!j->wait)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < t->n_deps; i++) {
		uint32_t dep = x->s->deps[t->first_dep + i], k = 0;
		struct ff_bound_task *before = &x->bound[dep];

		if (!before->here || before->stream == j->stream)
			continue;
		while (k < j->n_waits && x->bound[j->wait[k]].stream != before->stream)
			k++;
		if (k == j->n_waits)
			j->wait[j->n_waits++] = dep;
		else if (j->wait[k] < dep)
			j->wait[k] = dep;
	}
	for (uint32_t k = 0; k < j->n_waits; k++) {
		struct ff_bound_task *before = &x->bound[j->wait[k]];
		bool compute = before->stream == x->host[before->hosts[0]].compute;
		uint32_t host = compute ? before->hosts[0] : 0;

		if (before->done)
			continue;
		/* of the device whose stream records it */
		code = x->b->event.open(x->host[host].dev, &before->done, err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

int ff_bind_jobs(struct ff_executor *x, struct ff_error *err)
{
	const struct ff_schedule *s = x->s;
	uint32_t n_spans = 0;
	int code = FF_OK;

	x->bound = ff_arena_array(&x->arena, s->n_tasks, sizeof(*x->bound));
	x->losses.scored = ff_arena_array(&x->arena, s->n_tasks, sizeof(*x->losses.scored));
	if (!x->bound || !x->losses.scored)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < s->n_tasks && code == FF_OK; i++) {
		code = bind_task(x, &s->tasks[i], &x->bound[i], err);
		n_spans += x->bound[i].n_hosts;
	}
	for (uint32_t i = 0; i < s->n_tasks && code == FF_OK; i++)
		if (x->bound[i].here)
			code = bind_waits(x, i, err);
	if (code < 0)
		return code;
	x->trace.span = ff_arena_array(&x->arena, n_spans, sizeof(*x->trace.span));
	if (!x->trace.span)
		return ff_fail_memory(err);
	code = ff_fuse_jobs(x, err);
	if (code == FF_OK)
		code = ff_sums_give(x, err);
	return code < 0 ? code : ff_load_open(x, err);
}
