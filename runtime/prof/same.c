/* What ranks that measure together have to be started with alike.  SPDX-License-Identifier:
 * Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "process/agree.h"
#include "prof.h"

static void add(struct ff_same *s, const char *name, const char *text)
{
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->text, sizeof(s->text), "%s", text);
}

static void add_count(struct ff_same *s, const char *name, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	add(s, name, text);
}

static void add_flag(struct ff_same *s, const char *name, bool is)
{
	add(s, name, is ? "given" : "not given");
}

int ff_prof_same(const struct ff_prof *p, struct ff_error *err)
{
	const struct ff_prof_options *o = p->opt;
	struct ff_same all[16] = {0};
	char graph[32], budget[32];
	uint32_t n = 0;

	snprintf(graph, sizeof(graph), "%016" PRIx64, p->graph.hash);
	snprintf(budget, sizeof(budget), "%g s", o->budget_s);
	add(&all[n++], "GRAPH", graph);
	add(&all[n++], "--machine", p->machine.name);
	add(&all[n++], "--device", p->backend->name);
	add_count(&all[n++], "--devices", p->machine.n_devices);
	add_count(&all[n++], "--micro-batches", o->micro_batches ? o->micro_batches : 1);
	add_count(&all[n++], "--rounds", o->rounds ? o->rounds : 1);
	add_count(&all[n++], "--largest", (uint64_t)o->largest);
	add_count(&all[n++], "--strategy (how many)", o->strategies.n);
	add_count(&all[n++], "--rewrite (how many)", o->rewrite.n);
	add(&all[n++], "--data", o->data ? o->data : "synthetic");
	add(&all[n++], "--budget", o->budget_s > 0 ? budget : "none");
	add_flag(&all[n++], "--write-machine", o->write_machine);
	add_flag(&all[n++], "--replace", o->replace);
	add_flag(&all[n++], "--again", o->again);
	add_flag(&all[n++], "--kernels", o->kernels);
	return ff_agree_same(p->comm, all, n, err);
}
