/* What of a topology makes figures doubtful.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topology.h"

#define GIB 1073741824.0

/* What is being told of. */
struct warning {
	const struct ff_topology *t;
	const char *who;
	struct ff_out *o;
	uint32_t node;
	const struct ff_seat *set; /* whose cores are looked at */
};

static void begin(const struct warning *w)
{
	ff_out_printf(w->o, "%s: warning: ", w->who);
}

static const struct ff_host *host(const struct ff_topology *t, uint32_t node)
{
	return &t->seat[t->first[node]].host;
}

static uint32_t count_cores(const struct ff_seat *s)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < s->host.cores; c++)
		n += ff_seat_has(s, c);
	return n;
}

static bool is_within(const struct ff_seat *s, const struct ff_seat *set)
{
	for (uint32_t i = 0; i < FF_HOST_CORES / 64; i++)
		if (s->core[i] & ~set->core[i])
			return false;
	return true;
}

static bool is_equal(const struct ff_seat *s, const struct ff_seat *set)
{
	return !memcmp(s->core, set->core, sizeof(s->core));
}

static bool is_inside(const struct ff_topology *t, uint32_t rank, void *arg)
{
	return is_within(&t->seat[rank], ((const struct warning *)arg)->set);
}

static void name_inside(struct warning *w)
{
	ff_topology_name_ranks(w->t, w->t->first[w->node],
			w->t->first[w->node + 1] - w->t->first[w->node], is_inside, w, w->o);
}

static uint32_t first_core(const struct ff_seat *s)
{
	uint32_t c = 0;

	while (c < s->host.cores && !ff_seat_has(s, c))
		c++;
	return c;
}

/* Whether ranks whose cores lie in a set have more threads than it has cores. */
static bool is_crowded(struct warning *w, const struct ff_seat *set, uint32_t *threads)
{
	*threads = 0;
	for (uint32_t r = w->t->first[w->node]; r < w->t->first[w->node + 1]; r++)
		if (is_within(&w->t->seat[r], set))
			*threads += w->t->seat[r].threads;
	return *threads > count_cores(set);
}

/* Whether a set was met before, or has in it a smaller one that is crowded, too. */
static bool is_told(struct warning *w, uint32_t rank)
{
	const struct ff_seat *s = &w->t->seat[rank];
	uint32_t threads;

	for (uint32_t r = w->t->first[w->node]; r < w->t->first[w->node + 1]; r++) {
		const struct ff_seat *other = &w->t->seat[r];

		if (is_equal(other, s) ? r < rank
				       : is_within(other, s) && is_crowded(w, other, &threads))
			return true;
	}
	return false;
}

static void tell_crowd(struct warning *w, uint32_t threads)
{
	const struct ff_host *h = host(w->t, w->node);
	uint32_t cores = count_cores(w->set);

	begin(w);
	name_inside(w);
	if (cores == 1 && h->cores > 1)
		ff_out_printf(w->o,
				" on %s may run on core %u alone, with %u threads in all: expected "
				"ranks with cores of their own, as mpirun --bind-to core has "
				"them\n",
				h->name, first_core(w->set), threads);
	else
		ff_out_printf(w->o,
				" on %s have %u threads for the %u core%s that they may run on: "
				"expected no more threads than cores\n",
				h->name, threads, cores, cores == 1 ? "" : "s");
}

static void warn_crowds(struct warning *w)
{
	for (uint32_t r = w->t->first[w->node]; r < w->t->first[w->node + 1]; r++) {
		uint32_t threads;

		w->set = &w->t->seat[r];
		if (is_crowded(w, w->set, &threads) && !is_told(w, r))
			tell_crowd(w, threads);
	}
}

/* May run where it is far from its memory, though it had room beside it. */
static bool strays(const struct ff_topology *t, uint32_t rank, void *arg)
{
	const struct ff_seat *s = &t->seat[rank];
	uint32_t core = 0, domains = 0, most = 0;

	(void)arg;
	for (uint32_t i = 0; i < s->host.domains; i++) {
		const struct ff_host_domain *d = &s->host.domain[i];
		bool met = false;

		for (uint32_t k = 0; k < d->cores; k++)
			met |= ff_seat_has(s, core++);
		domains += met;
		most = met && d->cores > most ? d->cores : most;
	}
	return domains > 1 && s->threads <= most;
}

static void warn_strays(const struct warning *w)
{
	bool any = false;

	for (uint32_t r = 0; r < w->t->n_ranks; r++)
		any |= strays(w->t, r, NULL);
	if (!any)
		return;
	begin(w);
	ff_topology_name_ranks(w->t, 0, w->t->n_ranks, strays, NULL, w->o);
	ff_out_printf(w->o, " may run on several NUMA nodes, now near to their memory and now far "
			    "from it: expected ranks bound to one, as mpirun --bind-to numa or "
			    "core has them\n");
}

/* What two hosts differ in; NULL: in nothing that counts. */
static const char *difference(
		const struct ff_host *a, const struct ff_host *b, double *was, double *is)
{
	const struct {
		const char *what;
		double a, b;
	} all[] = {{"packages", a->packages, b->packages}, {"NUMA nodes", a->domains, b->domains},
			{"cores", a->cores, b->cores}, {"hardware threads", a->threads, b->threads},
			{"MiB of last cache", (double)a->domain[0].cache_bytes / 1048576,
					(double)b->domain[0].cache_bytes / 1048576},
			{"GiB for ranks", (double)(ff_host_room(a) >> 20) / 1024,
					(double)(ff_host_room(b) >> 20) / 1024}};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		/* kernels keep a little memory back, never quite the same */
		double slack = i + 1 == sizeof(all) / sizeof(*all) ? 0.02 * all[i].a : 0;

		*was = all[i].a;
		*is = all[i].b;
		if (*was - *is > slack || *is - *was > slack)
			return all[i].what;
	}
	return NULL;
}

static const char *model(const struct ff_host *h)
{
	return h->processor[0] ? h->processor : "an unknown processor";
}

static void warn_differences(const struct warning *w)
{
	for (uint32_t i = 1; i < w->t->n_nodes; i++) {
		const struct ff_host *a = host(w->t, 0), *b = host(w->t, i);
		double was, is;
		const char *what = difference(a, b, &was, &is);
		bool models = strcmp(a->processor, b->processor) != 0;

		if (!what && !models)
			continue;
		begin(w);
		if (what)
			ff_out_printf(w->o, "hosts %s and %s differ, by %.4g and %.4g %s", a->name,
					b->name, was, is, what);
		else
			ff_out_printf(w->o, "hosts %s and %s differ, by %s and %s", a->name,
					b->name, model(a), model(b));
		ff_out_printf(w->o, ": what is measured is of neither, the slower one holds up the "
				    "other\n");
		return;
	}
}

/* MPI says who shares memory, and hosts say their names. */
static void warn_names(const struct warning *w)
{
	const struct ff_topology *t = w->t;

	for (uint32_t i = 0; i < t->n_nodes; i++) {
		for (uint32_t r = t->first[i] + 1; r < t->first[i + 1]; r++)
			if (strcmp(t->seat[r].host.name, host(t, i)->name) != 0) {
				begin(w);
				ff_out_printf(w->o,
						"ranks %u and %u share memory, as MPI says, but "
						"one "
						"says that it is on %s and one on %s\n",
						t->first[i], r, host(t, i)->name,
						t->seat[r].host.name);
				return;
			}
		if (i && !strcmp(host(t, i)->name, host(t, i - 1)->name)) {
			begin(w);
			ff_out_printf(w->o,
					"ranks %u and %u share no memory, as MPI says, but both "
					"say "
					"that they are on %s\n",
					t->first[i - 1], t->first[i], host(t, i)->name);
			return;
		}
	}
}

static void warn_memory(const struct warning *w, const struct ff_machine *m)
{
	for (uint32_t i = 0; i < w->t->n_nodes; i++) {
		const struct ff_host *h = host(w->t, i);
		uint32_t n = w->t->first[i + 1] - w->t->first[i];
		int64_t each = ff_device_kind(m, w->t->first[i] < m->n_devices ? w->t->first[i] : 0)
					       ->memory_bytes;

		if (each <= ff_host_room(h) / n)
			continue;
		begin(w);
		ff_out_printf(w->o,
				"machine %s gives each device %.4g GiB, but %s has %.4g GiB for "
				"its "
				"%u rank%s\n",
				m->name, (double)each / GIB, h->name, (double)ff_host_room(h) / GIB,
				n, n == 1 ? "" : "s");
		return;
	}
}

void ff_topology_warn(const struct ff_topology *t, const struct ff_machine *m, const char *who,
		struct ff_out *o)
{
	struct warning w = {.t = t, .who = who, .o = o};

	warn_names(&w);
	if (m)
		warn_memory(&w, m);
	if (!ff_topology_known(t))
		return;
	warn_differences(&w);
	warn_strays(&w);
	for (w.node = 0; w.node < t->n_nodes; w.node++)
		warn_crowds(&w);
}
