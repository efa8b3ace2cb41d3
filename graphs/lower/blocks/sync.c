/* Buckets: shards of parameters that live on the same devices are gathered in the
 * order in which backward completes their gradients, so that one all-reduce and one
 * update serve many small tensors and start while backward goes on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/bucket_layout.h"
#include "ff/bucketing.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_BYTES ((int64_t)256 << 10) /* less is latency */
#define SHARES 4

int64_t ff_bucket_bytes(const struct ff_graph *g, const struct ff_machine *m)
{
	int64_t share = ff_graph_parameters(g) * FF_F32_BYTES / SHARES;

	if (!m->overlap || share > FF_BUCKET_BYTES)
		return FF_BUCKET_BYTES;
	return share > LEAST_BYTES ? share : LEAST_BYTES;
}

int ff_bucketing_init(struct ff_bucketing *b, const struct ff_graph *g, int64_t bucket_bytes,
		struct ff_error *err)
{
	*b = (struct ff_bucketing){.n_nodes = g->n_nodes, .type = g->dtype};
	b->bucket_bytes = bucket_bytes;
	b->first_at = malloc((3 * (size_t)g->n_nodes + 1) * sizeof(*b->first_at));
	b->scattered = malloc((size_t)g->n_nodes + 1);
	if (!b->first_at || !b->scattered)
		return ff_fail_memory(err);
	b->first_opened[0] = b->first_at + g->n_nodes;
	b->first_opened[1] = b->first_at + 2 * (size_t)g->n_nodes;
	return FF_OK;
}

void ff_bucketing_finish(struct ff_bucketing *b)
{
	free(b->bucket);
	free(b->member);
	free(b->first_at);
	free(b->scattered);
	free(b->newest);
	free(b->opened);
	ff_table_finish(&b->sets);
}

void ff_bucketing_begin(struct ff_bucketing *b)
{
	b->n_buckets = b->n_members = b->n_scattered = b->n_dropped = 0;
	b->round++;
	memset(b->scattered, 0, b->n_nodes * sizeof(*b->scattered));
	ff_table_clear(&b->sets);
}

static int reserve(struct ff_bucketing *b, uint32_t n, struct ff_error *err)
{
	uint32_t cap = b->cap ? b->cap : 256;
	struct ff_bucket_member *member;
	struct ff_bucket_build *bucket;
	uint32_t *newest, *opened;

	if (n <= b->cap - b->n_members)
		return FF_OK;
	while (cap - b->n_members < n)
		cap *= 2;
	member = realloc(b->member, cap * sizeof(*member));
	if (member)
		b->member = member;
	bucket = realloc(b->bucket, cap * sizeof(*bucket));
	if (bucket)
		b->bucket = bucket;
	newest = realloc(b->newest, cap * sizeof(*newest));
	if (newest)
		b->newest = newest;
	opened = realloc(b->opened, cap * sizeof(*opened));
	if (opened)
		b->opened = opened;
	if (!member || !bucket || !newest || !opened)
		return ff_fail_memory(err);
	b->cap = cap;
	return FF_OK;
}

static inline bool same_way(struct ff_update_way a, struct ff_update_way b)
{
	return a.synced == b.synced && a.flat == b.flat && a.scattered == b.scattered &&
	       a.dropped == b.dropped && a.stage == b.stage && a.later == b.later &&
	       a.runs == b.runs;
}

/* Whether bucket `i` is for the devices of `g`, which are updated so. */
static inline bool is_of(const struct ff_bucketing *b, uint32_t i, const struct ff_weight_group *g,
		struct ff_update_way w)
{
	const struct ff_bucket_build *k = &b->bucket[i];

	return k->set == g->set && same_way(k->way, w) && k->replicas == g->replicas &&
	       k->n_devices == g->n_devices &&
	       (k->device == g->device ||
			       !memcmp(k->device, g->device, g->n_devices * sizeof(*g->device)));
}

static uint64_t key_of(const struct ff_weight_group *g, struct ff_update_way w)
{
	return g->set + w.synced + w.flat + w.scattered + w.dropped + w.stage + w.later;
}

/* The newest bucket of the devices of `g`, or FF_NONE; `set` is theirs. */
static uint32_t find_set(const struct ff_bucketing *b, const struct ff_weight_group *g,
		struct ff_update_way w, uint32_t *set)
{
	uint64_t key = key_of(g, w);
	uint32_t at, i;

	for (i = ff_table_first(&b->sets, key, &at); i != FF_NONE;
			i = ff_table_next(&b->sets, key, &at))
		if (is_of(b, b->newest[i], g, w))
			break;
	*set = i == FF_NONE ? b->sets.n : i;
	return i == FF_NONE ? FF_NONE : b->newest[i];
}

static void open_new(
		struct ff_bucketing *b, const struct ff_weight_group *g, struct ff_update_way w)
{
	b->n_scattered += w.scattered;
	b->n_dropped += w.dropped;
	b->bucket[b->n_buckets++] = (struct ff_bucket_build){.way = w,
			.replica = g->replica,
			.replicas = g->replicas,
			.open = true,
			.n_devices = g->n_devices,
			.device = g->device,
			.set = g->set,
			.first = FF_NONE};
}

/* The newest bucket of the one device of `g`, opened anew when it is full. */
static uint32_t open_single(struct ff_bucketing *b, const struct ff_weight_group *g)
{
	uint32_t newest = b->single[g->first].newest;

	if (b->single[g->first].round == b->round && b->bucket[newest].open)
		return newest;
	b->single[g->first].round = b->round;
	b->single[g->first].newest = b->n_buckets;
	open_new(b, g, (struct ff_update_way){.runs = 1});
	return b->n_buckets - 1;
}

/* The newest bucket of the devices of `g`, opened anew when it is full; FF_NONE: no memory. */
static uint32_t open_bucket(
		struct ff_bucketing *b, const struct ff_weight_group *g, struct ff_update_way w)
{
	uint32_t last = b->n_buckets - 1, set, newest;

	/* mostly it is the last one */
	if (b->n_buckets && b->bucket[last].open && is_of(b, last, g, w))
		return last;
	newest = find_set(b, g, w, &set);
	if (newest != FF_NONE && b->bucket[newest].open)
		return newest;
	if (newest == FF_NONE && ff_table_put(&b->sets, key_of(g, w), set) < 0)
		return FF_NONE;
	b->newest[set] = b->n_buckets;
	open_new(b, g, w);
	return b->n_buckets - 1;
}

/* Appends a member to a bucket; `reserve` has made room for it. */
static void append(struct ff_bucketing *b, struct ff_bucket_build *k, struct ff_bucket_member m)
{
	m.next = FF_NONE;
	b->member[b->n_members] = m;
	if (k->first == FF_NONE)
		k->first = b->n_members;
	else
		b->member[k->last].next = b->n_members;
	k->last = b->n_members++;
	k->bytes += m.group->bytes;
	if (m.group->sparse_rows)
		ff_sparse_add(&k->sparse, m.group->bytes, &m.group->region, m.group->sparse_rows);
	k->open = k->bytes < b->bucket_bytes;
}

/* How many runs `w` comes to on the devices of `g`. */
static struct ff_update_way resolved(struct ff_update_way w, const struct ff_weight_group *g)
{
	uint32_t n = g->n_devices;

	if (w.copies)
		w.runs = n * g->replicas / w.copies;
	else if (!w.runs || w.runs > n || n % w.runs)
		w.runs = n;
	w.copies = 0;
	return w;
}

int ff_bucketing_add(struct ff_bucketing *b, uint32_t node, uint32_t param,
		const struct ff_weight_group *group, uint32_t n, struct ff_update_way way,
		struct ff_error *err)
{
	int code = reserve(b, n, err);

	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		const struct ff_weight_group *g = &group[i];
		struct ff_update_way w = {.synced = way.synced, .runs = 1};
		uint32_t at;

		if (way.flat && way.synced && g->n_devices > 1)
			w = resolved(way, g);
		at = !w.synced && g->n_devices == 1 ? open_single(b, g) : open_bucket(b, g, w);
		if (at == FF_NONE)
			return ff_fail_memory(err);
		b->bucket[at].close = node;
		b->bucket[at].apart |= w.synced && g->slot == FF_NONE;
		b->scattered[param] = w.scattered;
		append(b, &b->bucket[at], (struct ff_bucket_member){.param = param, .group = g});
	}
	return code;
}

/* Lists the buckets that close at each node. */
static void list_closed(struct ff_bucketing *b)
{
	memset(b->first_at, 0xff, b->n_nodes * sizeof(*b->first_at));
	/* pushed from the last, so that a node's buckets come out in their order */
	for (uint32_t i = b->n_buckets; i-- > 0;) {
		b->bucket[i].next_at = b->first_at[b->bucket[i].close];
		b->first_at[b->bucket[i].close] = i;
	}
}

void ff_bucketing_end(struct ff_bucketing *b)
{
	list_closed(b);
	for (uint32_t i = 0; i < b->n_buckets; i++) {
		struct ff_bucket_build *k = &b->bucket[i];

		if (k->way.flat)
			k->bytes = k->way.runs *
				   ff_bucket_run_bytes(b->type, k->bytes, k->way.runs);
	}
}

static bool is_on_any(const struct ff_bucket_build *k, const bool *device)
{
	for (uint32_t d = 0; d < k->n_devices; d++)
		if (device[k->device[d]])
			return true;
	return false;
}

void ff_bucketing_keep(struct ff_bucketing *b, const bool *device)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->n_buckets; i++)
		if (is_on_any(&b->bucket[i], device))
			b->bucket[n++] = b->bucket[i];
	b->n_buckets = n;
	list_closed(b);
}

/* ---- how parameters are updated ---- */

/* How many of a group's devices have each element by `c`, if each device of all groups, which are
 * equally large, has one part; else 0. */
static uint32_t find_copies(const struct ff_node *n, const struct ff_config *c,
		const struct ff_weight_group *group, uint32_t n_groups)
{
	uint16_t device[FF_MAX_DEVICES];
	bool reads[FF_MAX_DEVICES];
	uint32_t copies;

	if (!n_groups || n_groups * group->n_devices != c->n_parts || c->replicas % group->replicas)
		return 0;
	copies = c->replicas / group->replicas;
	if (group->n_devices % copies)
		return 0;
	memset(reads, 0, sizeof(reads));
	for (uint32_t i = 0; i < n_groups; i++) {
		if (group[i].n_devices != group->n_devices)
			return 0;
		for (uint32_t d = 0; d < group[i].n_devices; d++)
			reads[group[i].device[d]] = true;
	}
	ff_config_devices(n, c, device);
	for (uint32_t p = 0; p < c->n_parts; p++) {
		if (!reads[device[p]])
			return 0;
		reads[device[p]] = false;
	}
	return copies;
}

bool ff_param_is_synced(const struct ff_block_graph *b, uint32_t param,
		const struct ff_config *config, bool together, enum ff_flat *flat)
{
	const struct ff_graph *g = b->g;
	const struct ff_edge *e = &g->edges[ff_value_use(g, &g->values[g->nodes[param].out], 0)];
	const struct ff_weight_group *group;
	enum ff_readers readers;
	uint32_t n, copies;

	*flat = FF_FLAT_NOT;
	if (config->n_parts == 1)
		return false;
	readers = ff_readers_find(b, param);
	if (readers == FF_READERS_MIXED || (config->n_parts && readers == FF_READERS_APART))
		return false;
	if (!config->n_parts) {
		if (config->flat)
			*flat = readers == FF_READERS_APART ? FF_FLAT_APART : FF_FLAT;
		return true;
	}
	group = ff_node_block_groups(b->block[e->node], e->slot, &n);
	copies = find_copies(&g->nodes[param], config, group, n);
	if (copies && copies < group->n_devices)
		*flat = FF_FLAT_CUT;
	return copies && (together || *flat == FF_FLAT_NOT);
}

/* ---- scattered and dropped buckets ---- */

/* 1 + the stage of all nodes that read `param`; 0: they are in several stages. */
static uint32_t stage_of(const struct ff_graph *g, const struct ff_strategy *s, uint32_t param)
{
	const struct ff_value *v = &g->values[g->nodes[param].out];
	uint32_t stage = ff_strategy_stage(g, s, ff_value_reader(g, v, 0));

	for (uint32_t u = 1; u < v->n_uses; u++)
		if (ff_strategy_stage(g, s, ff_value_reader(g, v, u)) != stage)
			return 0;
	return 1 + stage;
}

/* Whether the gradient of `param` is made in the second half of a backward.  Parameters of halved
 * nodes have one reader. */
static bool is_made_later(const struct ff_graph *g, const struct ff_program *p, uint32_t param)
{
	const struct ff_value *v = &g->values[g->nodes[param].out];

	return p->halved[ff_value_reader(g, v, 0)];
}

/* Of one micro-batch gradients are synchronised once anyway.  Of several those of a parameter that
 * is cut by its axes stay where they are summed up.  Readers that are apart write theirs at
 * different times, into what is there for good. */
struct ff_update_way ff_param_way(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_program *p, uint32_t param, const struct ff_config *c,
		enum ff_flat flat)
{
	struct ff_update_way w = {.synced = true, .flat = flat != FF_FLAT_NOT};
	uint32_t stage = w.flat ? stage_of(g, s, param) : 0;

	w.runs = s->shards;
	w.copies = flat == FF_FLAT_CUT ? c->replicas : 0;
	if (!w.flat || flat == FF_FLAT_APART)
		return w;
	w.dropped = stage && p->recomputed[param];
	w.stage = w.dropped || p->scatters ? stage : 0;
	w.later = w.stage && is_made_later(g, p, param);
	w.scattered = w.stage || (p->micro_batches == 1 && (s->scatter || flat == FF_FLAT_CUT));
	return w;
}

/* Takes in who reads `param`. */
static void read_by(struct ff_bucket_build *k, const struct ff_graph *g, const struct ff_program *p,
		uint32_t param, bool later)
{
	const struct ff_value *v = &g->values[g->nodes[param].out];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t node = ff_value_reader(g, v, u);
		uint32_t first = ff_program_gathers(p, later, 0, node);
		uint32_t opens = k->opens[later], closes = k->closes[later];

		if (first == FF_NONE)
			continue;
		if (opens == FF_NONE || first < ff_program_gathers(p, later, 0, opens))
			k->opens[later] = node;
		if (closes == FF_NONE || ff_program_reads(p, later, 0, node) >
							 ff_program_reads(p, later, 0, closes))
			k->closes[later] = node;
	}
}

/* Who reads its weights first and last, if it is dropped. */
static void find_readers(struct ff_bucketing *b, struct ff_bucket_build *k,
		const struct ff_graph *g, const struct ff_program *p)
{
	for (int later = 0; later < 2; later++) {
		k->opens[later] = k->closes[later] = FF_NONE;
		for (uint32_t m = k->first; m != FF_NONE && k->way.dropped; m = b->member[m].next)
			read_by(k, g, p, b->member[m].param, later);
	}
}

/* Dropped buckets into `order` as they are opened; they stand in that order, or from the last to
 * the first, but for few.  Returns how many. */
static uint32_t order_opened(const struct ff_bucketing *b, const struct ff_program *p, bool later,
		uint32_t *order)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < b->n_buckets; k++) {
		uint32_t i = later ? k : b->n_buckets - 1 - k, at = n, step;

		if (b->bucket[i].opens[later] == FF_NONE)
			continue;
		step = ff_program_gathers(p, later, 0, b->bucket[i].opens[later]);
		for (; at > 0; at--) {
			uint32_t before = order[at - 1],
				 its = ff_program_gathers(
						 p, later, 0, b->bucket[before].opens[later]);

			if (its < step || (its == step && before < i))
				break;
			order[at] = before;
		}
		order[at] = i;
		n++;
	}
	return n;
}

/* The bucket of the same devices and stage that another node opens before the one at `at`, or that.
 */
static uint32_t opened_before(
		const struct ff_bucketing *b, bool later, const uint32_t *order, uint32_t at)
{
	const struct ff_bucket_build *k = &b->bucket[order[at]];

	for (uint32_t i = at; i-- > 0;) {
		const struct ff_bucket_build *o = &b->bucket[order[i]];

		if (o->opens[later] != k->opens[later] && o->set == k->set &&
				same_way(o->way, k->way) && o->n_devices == k->n_devices &&
				!memcmp(o->device, k->device, k->n_devices * sizeof(*k->device)))
			return order[i];
	}
	return order[at];
}

/* A dropped bucket is gathered when the one before it is opened, so that it is on its way while
 * that one is read. */
static void open_ahead(struct ff_bucketing *b, const struct ff_program *p, bool later)
{
	uint32_t n = order_opened(b, p, later, b->opened);

	for (uint32_t at = n; at-- > 0;) {
		struct ff_bucket_build *k = &b->bucket[b->opened[at]];

		k->opens[later] = b->bucket[opened_before(b, later, b->opened, at)].opens[later];
		k->next_opened[later] = b->first_opened[later][k->opens[later]];
		b->first_opened[later][k->opens[later]] = b->opened[at];
	}
}

/* Takes in who writes gradients of `param`. */
static void written_by(struct ff_bucket_build *k, const struct ff_graph *g,
		const struct ff_program *p, uint32_t param)
{
	const struct ff_value *v = &g->values[g->nodes[param].out];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t node = ff_value_reader(g, v, u);
		uint32_t at = ff_program_writes(p, 0, node);

		if (at != FF_NONE &&
				(k->writes == FF_NONE || at < ff_program_writes(p, 0, k->writes)))
			k->writes = node;
	}
}

/* The next bucket of the same devices that is updated likewise, or FF_NONE. */
static uint32_t next_alike(const struct ff_bucketing *b, uint32_t i)
{
	const struct ff_bucket_build *k = &b->bucket[i];
	uint32_t next = i + 1;

	while (next < b->n_buckets &&
			!(same_way(b->bucket[next].way, k->way) && b->bucket[next].set == k->set &&
					b->bucket[next].replica == k->replica))
		next++;
	return next < b->n_buckets ? next : FF_NONE;
}

/* Buckets alike are a ring: behind the last the first comes again, in the next micro-batch. */
static void open_ring(struct ff_bucketing *b, uint32_t first)
{
	uint32_t n = 0, at = first, to = first, later = 0;

	for (uint32_t i = first; i != FF_NONE; i = next_alike(b, i))
		n++;
	for (uint32_t k = 0; k < FF_BUCKETS_ON_WAY; k++) {
		to = next_alike(b, to);
		later += to == FF_NONE;
		to = to == FF_NONE ? first : to;
	}
	for (uint32_t k = 0; k < n; k++, at = next_alike(b, at)) {
		b->bucket[at].frees = to;
		b->bucket[at].frees_later = later;
		to = next_alike(b, to);
		later += to == FF_NONE;
		to = to == FF_NONE ? first : to;
	}
}

static void open_rings(struct ff_bucketing *b)
{
	for (uint32_t i = 0; i < b->n_buckets; i++)
		b->bucket[i].frees = FF_NONE;
	for (uint32_t i = 0; i < b->n_buckets; i++)
		if (b->bucket[i].way.stage && b->bucket[i].frees == FF_NONE)
			open_ring(b, i);
}

void ff_bucketing_open(struct ff_bucketing *b, const struct ff_graph *g, const struct ff_program *p)
{
	if (b->n_dropped)
		memset(b->first_opened[0], 0xff,
				2 * (size_t)b->n_nodes * sizeof(**b->first_opened));
	for (uint32_t i = 0; i < b->n_buckets && b->n_scattered; i++) {
		struct ff_bucket_build *k = &b->bucket[i];

		k->writes = FF_NONE;
		for (uint32_t m = k->first; m != FF_NONE && k->way.scattered; m = b->member[m].next)
			written_by(k, g, p, b->member[m].param);
		find_readers(b, k, g, p);
	}
	if (b->n_scattered)
		open_rings(b);
	for (int later = 0; later < 2 && b->n_dropped; later++)
		open_ahead(b, p, later);
}
