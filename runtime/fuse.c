/* Fusing: where a task only goes over what the task before it has just written, the backend may
 * have one kernel for both, which keeps what lies between where somebody reads that later.  The
 * schedule stays as it is: the first task does the work of both in its place, the second one
 * nothing in its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "executor.h"

#include "ff/block.h"
#include "ff/cli.h"
#include "ff/instance.h"

/* Two tasks, one behind the other. */
struct pair {
	uint32_t first, second;
	bool keeps; /* what lies between is read later */
	struct ff_work w, next;
};

static bool overlap(const struct ff_buffer *a, const struct ff_buffer *b)
{
	return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The second task's output is written while the first one's inputs are still read: the memory
 * plan may have given it their place. */
static bool is_free(
		const struct ff_schedule *s, const struct ff_task *t, const struct ff_task *next)
{
	const struct ff_node *n = &s->graph->nodes[t->node];
	uint32_t out = ff_task_out(s, next, 0)[next->part];

	for (uint32_t i = 0; i < n->n_in; i++) {
		uint32_t in = ff_task_in(s, t, i)[t->part];

		if (in != FF_NONE && overlap(&s->buffers[in], &s->buffers[out]))
			return false;
	}
	return out != FF_NONE;
}

/* The second one waits for nothing else. */
static bool is_ready(const struct ff_executor *x, uint32_t first, uint32_t second)
{
	const struct ff_task *t = &x->s->tasks[second];

	for (uint32_t i = 0; i < t->n_deps; i++)
		if (x->s->deps[t->first_dep + i] != first)
			return false;
	return true;
}

/* `second` is the next task of its device. */
static bool is_pair(const struct ff_executor *x, uint32_t first, uint32_t second, bool *keeps)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *t = &s->tasks[first], *next = &s->tasks[second];
	const struct ff_node *n = &s->graph->nodes[t->node];
	const struct ff_node *reader = &s->graph->nodes[next->node];
	uint32_t between;

	if (t->kind != FF_TASK_FORWARD || next->kind != FF_TASK_FORWARD ||
			t->again != next->again || t->micro != next->micro ||
			t->part != next->part || n->n_out != 1 || reader->n_out != 1 ||
			reader->n_in != 1 || !x->job[first].kernel)
		return false;
	between = ff_task_in(s, next, 0)[next->part];
	if (between == FF_NONE || between != ff_task_out(s, t, 0)[t->part])
		return false;
	/* a later task may be one of backward, or of another device */
	*keeps = s->buffers[between].last != second;
	return is_ready(x, first, second) && is_free(s, t, next);
}

static void fill_work(const struct ff_executor *x, const struct ff_task *t, struct ff_work *ret)
{
	struct ff_region box;

	ff_config_box(&x->s->graph->nodes[t->node], &x->s->config[t->node], t->part, &box);
	ff_work_fill(x->s->graph, t->node, &box, t->pass, ret);
}

static int fuse(struct ff_executor *x, struct pair *p, struct ff_error *err)
{
	struct ff_job *j = &x->job[p->first], *next = &x->job[p->second];
	uint32_t device = x->s->tasks[p->first].device;
	struct ff_kernel *kernel = NULL;
	int code;

	fill_work(x, &x->s->tasks[p->first], &p->w);
	fill_work(x, &x->s->tasks[p->second], &p->next);
	code = x->b->fuse(x->host[x->host_of[device]].dev, &p->w, &p->next, p->keeps, &kernel, err);
	if (code < 0 || !kernel)
		return code;
	if (x->b->workspace(kernel) > x->s->workspace_bytes[device]) {
		x->b->kernel_close(kernel);
		return FF_OK;
	}
	x->b->kernel_close(j->kernel);
	x->b->kernel_close(next->kernel);
	j->kernel = kernel;
	j->io->out[1] = p->keeps ? j->io->out[0] : NULL;
	j->io->out[0] = next->io->out[0];
	next->kernel = NULL;
	return FF_OK;
}

int ff_fuse_jobs(struct ff_executor *x, struct ff_error *err)
{
	struct pair *p = ff_arena_alloc(&x->arena, sizeof(*p));
	uint32_t *last = ff_arena_array(&x->arena, x->n_hosts, sizeof(*last));
	bool wanted = x->b->fuse;
	int code = ff_cli_switch("FF_FUSE", &wanted, err);

	if (!p || !last)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->n_hosts; i++)
		last[i] = FF_NONE;
	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK && x->b->fuse && wanted; i++) {
		const struct ff_job *j = &x->job[i];

		p->first = j->n_hosts == 1 ? last[j->hosts[0]] : FF_NONE;
		p->second = i;
		for (uint32_t k = 0; k < j->n_hosts; k++)
			last[j->hosts[k]] = i;
		if (p->first != FF_NONE && is_pair(x, p->first, i, &p->keeps))
			code = fuse(x, p, err);
	}
	return code;
}
