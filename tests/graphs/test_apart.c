/* A parameter whose readers are on devices apart: an embedding that the first and the last stage of
 * a pipeline share.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/micro.h"
#include "ff/schedule.h"
#include "ff/zoo.h"

#define STAGE 2 /* devices of one */

struct plan {
	struct ff_arena a;
	struct ff_graph g, micro;
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_schedule schedule;
	const struct ff_value *shared;
};

/* Whoever reads the shared parameter cuts it in as many parts as the stage has devices. */
static void cut_words(struct plan *p)
{
	for (uint32_t u = 0; u < p->shared->n_uses; u++) {
		const struct ff_edge *e = &p->g.edges[ff_value_use(&p->g, p->shared, u)];
		const struct ff_operand *o = &p->g.nodes[e->node].in_map[e->slot];
		struct ff_config *c = &p->s.config[e->node];

		for (uint32_t d = 0; d < FF_MAX_DIMS; d++) {
			c->degree[d] = 1;
			c->stride[d] = 0;
		}
		c->degree[o->axis[0].term[0].dim] = STAGE;
		c->stride[o->axis[0].term[0].dim] = 1;
	}
}

/* Two stages: what is behind the first product is in the second. */
static void open(struct plan *p, uint32_t micro_batches, bool words, bool flat)
{
	const char *const sets[] = {"vocabulary=96", "features=16", "hidden=16", "tie=yes"};
	struct ff_error err = {0};
	bool later = false;
	uint32_t param;

	ff_arena_init(&p->a);
	ck_assert_int_eq(ff_zoo_build("lm", 8, sets, 4, &p->a, &p->g, &err), FF_OK);
	ck_assert_int_eq(ff_machine_load("cpu8", &p->a, &p->m, &err), FF_OK);
	ck_assert_int_eq(ff_graph_micro(&p->g, micro_batches, &p->a, &p->micro, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&p->micro, STAGE, &p->a, &p->s, &err), FF_OK);
	p->s.micro_batches = micro_batches;
	param = ff_graph_find(&p->g, "embed.weight");
	p->shared = &p->g.values[p->g.nodes[param].out];
	ck_assert_uint_eq(p->shared->n_uses, 2);
	for (uint32_t i = 0; i < p->g.n_nodes; i++) {
		if (!ff_node_is_computed(&p->g, i))
			continue;
		p->s.stage[i] = later;
		p->s.config[i].start = later ? STAGE : 0;
		later = later || p->g.nodes[i].op == FF_OP_LINEAR;
	}
	p->s.config[param].flat = flat;
	if (words)
		cut_words(p);
	ck_assert_msg(ff_lower(&p->g, &p->m, &p->s, NULL, &p->a, &p->schedule, &err) == FF_OK, "%s",
			err.text);
}

/* Of all parts of the parameter, the buckets that they lie in. */
static uint32_t find_buckets(const struct plan *p, uint32_t *bucket)
{
	const struct ff_schedule *s = &p->schedule;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_shards; i++)
		if (s->shards[i].node == p->shared->producer)
			bucket[n++] = s->shards[i].bucket;
	return n;
}

/* What the bucket's messages wait for is done by the readers of both stages. */
static void check_waits(const struct plan *p, const struct ff_task *t)
{
	const struct ff_schedule *s = &p->schedule;
	bool waits[2 * STAGE] = {false};

	for (uint32_t k = 0; k < t->n_deps; k++)
		waits[s->tasks[s->deps[t->first_dep + k]].device] = true;
	for (uint32_t d = 0; d < s->buckets[t->bucket].n_devices; d++)
		ck_assert(waits[s->buckets[t->bucket].device[d]]);
}

/* Where the whole table is read all devices have it, else each word is on one of either stage.
 * They sum its gradients once for all micro-batches, and nothing else of it is moved. */
START_TEST(shared_by_stages)
{
	bool words = _i & 1, flat = _i & 2;
	uint32_t bucket[2 * STAGE], syncs = 0, gathers = 0, n;
	const struct ff_schedule *s;
	struct plan p;

	open(&p, _i & 4 ? 4 : 1, words, flat);
	s = &p.schedule;
	n = find_buckets(&p, bucket);
	ck_assert_uint_eq(n, words ? STAGE : 1);
	for (uint32_t i = 0; i < n; i++) {
		const struct ff_bucket *b = &s->buckets[bucket[i]];

		ck_assert(b->synced);
		ck_assert_int_eq(b->flat, flat);
		ck_assert_uint_eq(b->n_devices, 2 * STAGE / n);
		for (uint32_t d = 0; d < b->n_devices; d++)
			ck_assert_uint_eq(b->device[d], words ? i + STAGE * d : d);
	}
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		ck_assert(!ff_task_moves_edge(t) ||
				ff_edge_source(&p.g, t->edge) != p.shared->producer);
		if (!ff_task_moves_bucket(t) ||
				(t->bucket != bucket[0] && t->bucket != bucket[n - 1]))
			continue;
		syncs += ff_task_pass(t) == FF_BACKWARD;
		gathers += ff_task_pass(t) == FF_FORWARD;
		if (ff_task_pass(t) == FF_BACKWARD)
			check_waits(&p, t);
	}
	ck_assert_uint_eq(syncs, n);
	ck_assert_uint_eq(gathers, flat ? n : 0);
	ff_arena_finish(&p.a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("apart");
	TCase *c = tcase_create("apart");

	tcase_add_loop_test(c, shared_by_stages, 0, 8);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
