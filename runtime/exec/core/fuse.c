/* Fusing: where a task only goes over what the task before it has just written, the backend may
 * have one kernel for both, which forward keeps what lies between where somebody reads that later;
 * and one for a third task behind them.  The schedule stays as it is: the first task does the work
 * of all in its place, the others nothing in their own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuse.h"

#include "ff/block.h"
#include "ff/cli.h"
#include "ff/instance.h"

/* What a device's tasks of late do by one kernel, that of the first one; one task is none yet. */
struct chain {
	uint32_t task[FF_FUSE_MOST], n;
	uint32_t how;    /* enum ff_fuse, of the last two */
	uint32_t beside; /* inputs that the kernel reads behind its first work's, or gradients that
			  * it writes behind its last one's */
};

/* A chain's tasks and one behind them. */
struct pair {
	struct chain *chain;
	uint32_t first, last, second; /* of the chain; the one behind */
	uint32_t how;                 /* enum ff_fuse */
	uint32_t joint; /* the input that lies between, forward of the one behind, backward of the
			 * chain's last */
	bool yields;    /* backward: what the first one reads is put where that would have been */
	bool joins;     /* backward: it is the second one's kernel that does the others' work */
	struct ff_work w[FF_FUSE_MOST];
};

static bool overlap(const struct ff_buffer *a, const struct ff_buffer *b)
{
	return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Whether what is read would be lost to what is written, before all of it has been. */
static bool is_lost(const struct ff_buffer *read, const struct ff_buffer *written, uint32_t *how)
{
	bool same = read->offset == written->offset && read->bytes == written->bytes;

	if (!overlap(read, written))
		return false;
	if (same)
		*how |= FF_FUSE_OVER;
	return !same;
}

/* The last task's output is written while inputs of all are still read: the memory plan may have
 * given it their place.  What a task reads of the one before it is not there any more. */
static bool is_free(const struct ff_schedule *s, const struct pair *p, uint32_t *how)
{
	const struct ff_task *next = &s->tasks[p->second];
	uint32_t out = ff_task_out(s, next, 0)[next->part], between = FF_NONE, exactly = 0;

	for (uint32_t k = 0; k <= p->chain->n && out != FF_NONE; k++) {
		const struct ff_task *t =
				&s->tasks[k < p->chain->n ? p->chain->task[k] : p->second];

		for (uint32_t i = 0; i < s->graph->nodes[t->node].n_in; i++) {
			uint32_t in = ff_task_in(s, t, i)[t->part];

			if (in != FF_NONE && in != between &&
					is_lost(&s->buffers[in], &s->buffers[out],
							k ? &exactly : how))
				return false;
		}
		between = ff_task_out(s, t, 0)[t->part];
	}
	return out != FF_NONE;
}

/* Whether the gradient `din` that the last task writes lies over nothing that `t`, the first one,
 * still needs.  What that reads of data it has read by then, so only its parameters and their
 * gradients may not be in the way. */
static bool is_free_backward(const struct ff_schedule *s, const struct ff_task *t,
		const struct ff_kernel_io *io, const struct ff_buffer *din)
{
	const struct ff_node *n = &s->graph->nodes[t->node];

	for (uint32_t i = n->n_data; i < n->n_in; i++)
		if ((io->in[i] && overlap(&s->buffers[ff_task_in(s, t, i)[t->part]], din)) ||
				(io->din[i] && overlap(&s->buffers[ff_task_din(s, t, i)[t->part]],
							       din)))
			return false;
	return true;
}

/* The gradient of its output, which it is the last to read, often is in the way.  That can be put
 * where what lies between has its place, which nobody writes any more, if it is so much less that
 * this pays. */
static bool gives_way(const struct ff_buffer *dout, const struct ff_buffer *between,
		const struct ff_buffer *din, bool *yields)
{
	*yields = overlap(dout, din);
	return !*yields || 2 * dout->bytes <= between->bytes;
}

bool ff_fuse_is_ready(
		const struct ff_executor *x, const uint32_t *first, uint32_t n, uint32_t second)
{
	const struct ff_task *t = &x->s->tasks[second];

	for (uint32_t i = 0; i < t->n_deps; i++) {
		uint32_t dep = x->s->deps[t->first_dep + i], k = 0;
		bool before = dep < first[0] && x->bound[dep].here &&
			      x->bound[dep].stream == x->bound[first[0]].stream;

		while (k < n && first[k] != dep)
			k++;
		if (k == n && !before)
			return false;
	}
	return true;
}

static bool is_forward_pair(const struct ff_schedule *s, struct pair *p)
{
	const struct ff_task *t = &s->tasks[p->last], *next = &s->tasks[p->second];
	const struct ff_node *n = &s->graph->nodes[t->node];
	const struct ff_node *reader = &s->graph->nodes[next->node];
	uint32_t between = ff_task_out(s, t, 0)[t->part], reads = 0;

	if (reader->n_out != 1 || between == FF_NONE)
		return false;
	for (uint32_t i = 0; i < reader->n_in; i++)
		if (ff_task_in(s, next, i)[next->part] == between) {
			p->joint = i;
			reads++;
		}
	if (reads != 1)
		return false;
	/* a later task may be one of backward, or of another device */
	if (s->buffers[between].last != p->second)
		p->how |= FF_FUSE_KEEPS;
	return (n->n_out < FF_MAX_OUTPUTS || !p->how) && is_free(s, p, &p->how);
}

/* Whether what a task has made of a gradient of data, whose place others have as soon as it is
 * over, is added to another's. */
static bool adds_data(const struct ff_schedule *s, const struct ff_task *t)
{
	const struct ff_node *n = &s->graph->nodes[t->node];

	for (uint32_t i = 0; i < n->n_data; i++)
		if (ff_task_sum(s, t, i))
			return true;
	return false;
}

/* The other way round: nobody else reads, or adds to, the gradient that lies between. */
static bool is_backward_pair(const struct ff_executor *x, struct pair *p)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *t = &s->tasks[p->first], *next = &s->tasks[p->second];
	const struct ff_node *n = &s->graph->nodes[t->node];
	const struct ff_node *maker = &s->graph->nodes[next->node];
	const struct ff_kernel_io *io = x->bound[p->first].io, *behind = x->bound[p->second].io;
	const struct ff_buffer *din;
	uint32_t between;

	if (p->chain->n > 1 || adds_data(s, t) || adds_data(s, next))
		return false;
	if (n->n_out != 1 || n->n_in == FF_MAX_INPUTS || maker->n_out != 1 || maker->n_in != 1 ||
			!io->din[0] || !io->dout[0] || !behind->din[0] || !behind->dout[0])
		return false;
	between = ff_task_dout(s, next, 0)[next->part];
	din = &s->buffers[ff_task_din(s, next, 0)[next->part]];
	return between == ff_task_din(s, t, 0)[t->part] && s->buffers[between].last == p->second &&
	       is_free_backward(s, t, io, din) &&
	       gives_way(&s->buffers[ff_task_dout(s, t, 0)[t->part]], &s->buffers[between], din,
			       &p->yields);
}

/* Whether what the first one reads of data may be read while gradients of task `t` are written,
 * whose places the memory plan may have in the same. */
static bool is_free_joined(
		const struct ff_executor *x, const struct pair *p, uint32_t task, uint32_t *how)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *first = &s->tasks[p->first], *t = &s->tasks[task];
	uint32_t flags = ff_op_row(s->graph->nodes[first->node].op)->flags, n = 1;
	uint32_t read[3] = {ff_task_dout(s, first, 0)[first->part]};

	if (flags & FF_OP_BACKWARD_OUT)
		read[n++] = ff_task_out(s, first, 0)[first->part];
	if (flags & FF_OP_BACKWARD_IN)
		read[n++] = ff_task_in(s, first, 0)[first->part];
	for (uint32_t i = 0; i < s->graph->nodes[t->node].n_data; i++) {
		uint32_t at = ff_task_din(s, t, i)[t->part];

		for (uint32_t k = 0; k < n && at != FF_NONE; k++)
			if (is_lost(&s->buffers[read[k]], &s->buffers[at], how))
				return false;
	}
	return true;
}

/* The number of the input of the chain's last one whose gradient the second one begins with; of
 * its inputs if it has none of that. */
static uint32_t joint_of(const struct ff_executor *x, const struct pair *p)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *t = &s->tasks[p->last], *next = &s->tasks[p->second];
	uint32_t between = ff_task_dout(s, next, 0)[next->part], i = 0;

	while (i < s->graph->nodes[t->node].n_in &&
			(between == FF_NONE || ff_task_din(s, t, i)[t->part] != between))
		i++;
	return i;
}

/* An activation's gradient, or a sum's or both, and the only reader of that but for its prelude.
 * Nobody adds to what lies between: who is behind it is the one before alone. */
static bool is_joined_pair(const struct ff_executor *x, struct pair *p)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *t = &s->tasks[p->last], *next = &s->tasks[p->second];
	const struct ff_node *n = &s->graph->nodes[t->node];
	const struct ff_node *maker = &s->graph->nodes[next->node];
	const struct ff_bound_task *j = &x->bound[p->first];
	uint32_t between, exactly = 0;

	if (j->n_additions || j->ahead || p->chain->how & FF_FUSE_KEEPS || n->n_out != 1 ||
			maker->n_in == 1 || maker->n_out - maker->n_saved != 1 ||
			(ff_op_row(maker->op)->flags & FF_OP_BACKWARD_OUT))
		return false;
	p->joint = joint_of(x, p);
	if (!j->io->dout[0] || !x->bound[p->second].io->dout[0] || p->joint == n->n_in)
		return false;
	between = ff_task_dout(s, next, 0)[next->part];
	if (s->buffers[between].last != p->second)
		p->how |= FF_FUSE_KEEPS;
	/* gradients of those between are written as they are made of what is read */
	for (uint32_t k = 1; k < p->chain->n; k++)
		if (!is_free_joined(x, p, p->chain->task[k], &exactly))
			return false;
	if (p->chain->n == 1 && n->n_in > 1 && !is_free_joined(x, p, p->first, &exactly))
		return false;
	/* the second one's own, if what lies between is kept, when all has been read */
	if (!(p->how & FF_FUSE_KEEPS) && !is_free_joined(x, p, p->second, &p->how))
		p->how |= FF_FUSE_LATE;
	p->joins = true;
	return true;
}

/* What a kernel for all would read, or write of gradients, at most. */
static uint32_t n_inputs(const struct ff_schedule *s, const struct pair *p)
{
	uint32_t n = s->graph->nodes[s->tasks[p->second].node].n_in;

	for (uint32_t k = 0; k < p->chain->n; k++)
		n += s->graph->nodes[s->tasks[p->chain->task[k]].node].n_in;
	return n;
}

/* `second` is the next task of its device. */
static bool is_pair(const struct ff_executor *x, struct pair *p)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *t = &s->tasks[p->chain->task[0]], *next = &s->tasks[p->second];
	const struct chain *c = p->chain;

	p->first = c->task[0];
	p->last = c->task[c->n - 1];
	p->how = 0;
	p->yields = p->joins = false;
	if (!ff_task_computes_part(next) || t->phase != next->phase || t->micro != next->micro ||
			t->part != next->part || !x->bound[p->first].kernel ||
			!ff_fuse_is_ready(x, c->task, c->n, p->second) ||
			n_inputs(s, p) > FF_MAX_INPUTS)
		return false;
	if (ff_task_pass(t) == FF_FORWARD)
		return is_forward_pair(s, p);
	return is_backward_pair(x, p) || is_joined_pair(x, p);
}

/* What is written behind a kernel's own scratch, to be added to other gradients. */
static int64_t added_bytes(const struct ff_bound_task *j)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < j->n_additions; i++)
		sum += ff_align64(ff_region_volume(&j->addition[i].region) *
				  ff_dtype_bytes(j->addition[i].type));
	return sum;
}

static void shift_additions(struct ff_bound_task *j, int64_t by)
{
	uint32_t slot = 0;

	/* they stand in the order of slots; a place may be that of another one before */
	for (uint32_t i = 0; i < j->n_additions; i++, slot++) {
		struct ff_copy *c = &j->addition[i];

		while (j->io->din[slot] != c->source)
			slot++;
		c->source = j->io->din[slot] = (char *)j->io->din[slot] + by;
	}
}

/* Ahead of its kernel the first task's gradient is put where what lies between has its place. */
static int yield(struct ff_executor *x, struct pair *p, struct ff_error *err)
{
	struct ff_bound_task *j = &x->bound[p->first];

	j->ahead = ff_arena_alloc(&x->arena, sizeof(*j->ahead));
	if (!j->ahead)
		return ff_fail_memory(err);
	*j->ahead = (struct ff_copy){.source = j->io->dout[0],
			.sink = j->io->din[0],
			.order = p->w[0].node->out_map[0].order,
			.source_region = p->w[0].out[0],
			.sink_region = p->w[0].out[0],
			.region = p->w[0].out[0],
			.type = p->w[0].node->out_map[0].dtype};
	j->io->dout[0] = j->io->din[0];
	return FF_OK;
}

/* The first task's kernel is one for both. */
static void take(const struct ff_executor *x, const struct pair *p, struct ff_kernel *kernel)
{
	struct ff_bound_task *j = &x->bound[p->first], *next = &x->bound[p->second];

	shift_additions(j, ff_align64(x->b->kernel.workspace(kernel)) -
					   ff_align64(x->b->kernel.workspace(j->kernel)));
	x->b->kernel.close(j->kernel);
	x->b->kernel.close(next->kernel);
	j->kernel = kernel;
	next->kernel = NULL;
	if (p->w[0].pass == FF_FORWARD) {
		const struct ff_node *reader = p->w[p->chain->n].node;

		if (p->how & FF_FUSE_KEEPS)
			j->io->out[p->w[0].node->n_out] = j->io->out[0];
		j->io->out[0] = next->io->out[0];
		for (uint32_t i = 0; i < reader->n_in; i++)
			if (i != p->joint)
				j->io->in[p->w[0].node->n_in + p->chain->beside++] =
						next->io->in[i];
	} else {
		j->io->in[p->w[0].node->n_in] = next->io->in[0];
		j->io->din[0] = next->io->din[0];
	}
}

/* What the chain's kernel writes of gradients beside what the next one goes on with. */
static void pass_on(const struct pair *p, const struct ff_kernel_io *io, void **din)
{
	uint32_t n_in = p->w[p->chain->n - 1].node->n_in, n = 0;

	for (uint32_t i = 0; i < n_in + p->chain->beside; i++)
		if (i != p->joint)
			din[n++] = io->din[i];
	p->chain->beside = n;
}

/* The second task's kernel, which does the work of both in the first one's place. */
static void join(const struct ff_executor *x, const struct pair *p, struct ff_kernel *kernel)
{
	struct ff_bound_task *j = &x->bound[p->first], *next = &x->bound[p->second];

	shift_additions(next, ff_align64(x->b->kernel.workspace(kernel)) -
					      ff_align64(x->b->kernel.workspace(next->kernel)));
	x->b->kernel.close(j->kernel);
	x->b->kernel.close(next->kernel);
	next->io->out[0] = j->io->out[0] ? j->io->out[0] : (void *)(uintptr_t)j->io->in[0];
	next->io->dout[1] = p->chain->n > 1 ? j->io->dout[1] : j->io->dout[0];
	pass_on(p, j->io, &next->io->din[p->w[p->chain->n].node->n_in]);
	j->io = next->io;
	j->kernel = kernel;
	j->addition = next->addition;
	j->n_additions = next->n_additions;
	next->kernel = NULL;
	next->n_additions = 0;
}

static int fuse(struct ff_executor *x, struct pair *p, bool *fused, struct ff_error *err)
{
	uint32_t device = x->s->tasks[p->first].device, n = p->chain->n;
	const struct ff_work *w[FF_FUSE_MOST];
	struct ff_kernel *kernel = NULL;
	int64_t have = x->s->workspace_bytes[device] -
		       added_bytes(&x->bound[p->joins ? p->second : p->first]);
	int code;

	for (uint32_t k = 0; k <= n; k++) {
		ff_task_work(x->s, &x->s->tasks[k < n ? p->chain->task[k] : p->second], &p->w[k]);
		w[k] = &p->w[k];
	}
	code = x->b->kernel.fuse(x->host[x->host_of[device]].dev, w, n + 1, p->how, &kernel, err);
	if (code < 0 || !kernel)
		return code;
	if (x->b->kernel.workspace(kernel) > have) {
		x->b->kernel.close(kernel);
		return FF_OK;
	}
	*fused = true;
	if (p->yields)
		code = yield(x, p, err);
	if (p->joins)
		join(x, p, kernel);
	else
		take(x, p, kernel);
	return code;
}

/* ---- updates ---- */

static bool is_update(const struct ff_executor *x, uint32_t task)
{
	return !x->s->tasks[task].move && x->s->tasks[task].compute == FF_COMPUTE_UPDATE &&
	       x->bound[task].here;
}

/* Whether it is no task of this process's, or an update that could as well be at `first`. */
static bool goes_on(const struct ff_executor *x, uint32_t first, uint32_t task)
{
	if (!x->bound[task].here)
		return true;
	return is_update(x, task) && x->bound[task].stream == x->bound[first].stream &&
	       ff_fuse_is_ready(x, &first, 1, task);
}

/* The first one does `n` in all. */
static int give_updates(struct ff_executor *x, uint32_t first, uint32_t last, uint32_t n,
		struct ff_error *err)
{
	struct ff_update *all = ff_arena_array(&x->arena, n, sizeof(*all));
	uint32_t at = 0;

	if (!all)
		return ff_fail_memory(err);
	for (uint32_t task = first; task <= last; task++) {
		struct ff_bound_task *j = &x->bound[task];

		for (uint32_t i = 0; i < j->n_updates; i++)
			all[at++] = j->update[i];
		j->n_updates = 0;
	}
	x->bound[first].update = all;
	x->bound[first].n_updates = n;
	return FF_OK;
}

/* Updates that a process has one behind the other are given to the backend together, unless one
 * waits for communication: those before it need not. */
static int join_updates(struct ff_executor *x, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t first = 0; first < x->s->n_tasks && code == FF_OK; first++) {
		uint32_t last = first, n = x->bound[first].n_updates;

		if (!is_update(x, first))
			continue;
		for (uint32_t i = first + 1; i < x->s->n_tasks && goes_on(x, first, i); i++) {
			n += x->bound[i].n_updates;
			last = x->bound[i].here ? i : last;
		}
		if (last > first)
			code = give_updates(x, first, last, n, err);
		first = last;
	}
	return code;
}

/* The chain goes on with task `p->second`, or begins with it. */
static int extend(struct ff_executor *x, struct pair *p, struct ff_error *err)
{
	struct chain *c = p->chain;
	bool fused = false;
	int code = FF_OK;

	if (c->n && c->n < FF_FUSE_MOST && is_pair(x, p))
		code = fuse(x, p, &fused, err);
	if (!fused)
		*c = (struct chain){.n = 0};
	c->how = fused ? p->how : 0;
	c->task[c->n++] = p->second;
	if (fused && p->w[0].pass == FF_BACKWARD && !p->joins)
		c->n = 0; /* nothing goes on behind a kernel that has gone ahead */
	return code;
}

int ff_fuse_jobs(struct ff_executor *x, struct ff_error *err)
{
	struct pair *p = ff_arena_alloc(&x->arena, sizeof(*p));
	struct chain *chain = ff_arena_array(&x->arena, x->n_hosts, sizeof(*chain));
	bool wanted = x->b->kernel.fuse;
	int code = ff_cli_switch("FF_FUSE", &wanted, err);

	if (!p || !chain)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->n_hosts; i++)
		chain[i].n = 0;
	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK && x->b->kernel.fuse && wanted;
			i++) {
		const struct ff_bound_task *j = &x->bound[i];

		if (ff_task_moves_bucket(&x->s->tasks[i]))
			continue; /* of buckets, which are nobody else's */
		p->second = i;
		if (j->n_hosts == 1) {
			p->chain = &chain[j->hosts[0]];
			code = extend(x, p, err);
			continue;
		}
		for (uint32_t k = 0; k < j->n_hosts; k++)
			chain[j->hosts[k]].n = 0;
	}
	return code < 0 || !x->b->kernel.fuse || !wanted ? code : join_updates(x, err);
}
