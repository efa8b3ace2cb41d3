/* Cost database: entries by key in a hash table, rates, links and collective
 * tables beside it.  SPDX-License-Identifier: Apache-2.0 */
#include "costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/grow.h"

bool ff_estimate_named(const char *costs, enum ff_estimate *ret)
{
	static const struct {
		const char *name;
		enum ff_estimate estimate;
	} estimates[] = {{"analytic", FF_ESTIMATE_MODEL}, {"peak", FF_ESTIMATE_PEAK}};

	for (size_t i = 0; i < sizeof(estimates) / sizeof(*estimates); i++)
		if (!strcmp(costs, estimates[i].name)) {
			*ret = estimates[i].estimate;
			return true;
		}
	return false;
}

int ff_costs_create(const char *device_kind, struct ff_costs **ret, struct ff_error *err)
{
	struct ff_costs *c = calloc(1, sizeof(*c));

	if (!c)
		return ff_fail_memory(err);
	ff_arena_init(&c->arena);
	c->origin = (struct ff_origin){.processor = "",
			.kernels = "",
			.mpi = "",
			.driver = "",
			.communication = ""};
	c->device_kind = ff_arena_strdup(&c->arena, device_kind);
	if (!c->device_kind) {
		ff_costs_destroy(c);
		return ff_fail_memory(err);
	}
	c->overlap = (struct ff_overlap_cost){-1, -1, 0, 0};
	*ret = c;
	return FF_OK;
}

void ff_costs_destroy(struct ff_costs *c)
{
	if (!c)
		return;
	free(c->entry);
	ff_table_finish(&c->table);
	free(c->comm);
	for (int k = 0; k < FF_RATE_COUNT; k++)
		free(c->rates[k].rate);
	ff_arena_finish(&c->arena);
	free(c);
}

const char *ff_costs_device_kind(const struct ff_costs *c)
{
	return c->device_kind;
}

const struct ff_origin *ff_costs_origin(const struct ff_costs *c)
{
	return &c->origin;
}

int ff_costs_set_origin(struct ff_costs *c, const struct ff_origin *o, struct ff_error *err)
{
	struct ff_origin own = *o;

	own.processor = ff_arena_strdup(&c->arena, o->processor);
	own.kernels = ff_arena_strdup(&c->arena, o->kernels);
	own.mpi = ff_arena_strdup(&c->arena, o->mpi);
	own.driver = ff_arena_strdup(&c->arena, o->driver ? o->driver : "");
	own.communication = ff_arena_strdup(&c->arena, o->communication ? o->communication : "");
	own.topology = ff_arena_strdup(&c->arena, o->topology ? o->topology : "");
	if (!own.processor || !own.kernels || !own.mpi || !own.driver || !own.communication ||
			!own.topology)
		return ff_fail_memory(err);
	c->origin = own;
	return FF_OK;
}

uint32_t ff_costs_count(const struct ff_costs *c)
{
	return c->n_entries;
}

/* How often the smaller goes into the larger. */
static double distance(int64_t a, int64_t b)
{
	double x = a > 1 ? (double)a : 1, y = b > 1 ? (double)b : 1;

	return x > y ? x / y : y / x;
}

/* Whether `a` is nearer to `bytes` than `b`; of two as near the smaller is. */
static bool is_nearer(int64_t a, int64_t b, int64_t bytes)
{
	double to_a = distance(a, bytes), to_b = distance(b, bytes);

	return to_a < to_b || (to_a == to_b && a < b);
}

/* The entry of that key that was measured most alike. */
static uint32_t find_entry(
		const struct ff_costs *c, const char *key, uint64_t hash, int64_t reuse_bytes)
{
	uint32_t at, i, best = FF_NONE;

	for (i = ff_table_first(&c->table, hash, &at); i != FF_NONE;
			i = ff_table_next(&c->table, hash, &at))
		if (!strcmp(c->entry[i]->key, key) &&
				(best == FF_NONE || is_nearer(c->entry[i]->reuse_bytes,
								    c->entry[best]->reuse_bytes,
								    reuse_bytes)))
			best = i;
	return best;
}

const struct ff_cost *ff_costs_find(const struct ff_costs *c, const char *key, int64_t reuse_bytes)
{
	uint32_t i = find_entry(c, key, ff_fnv1a(key, strlen(key)), reuse_bytes);

	return i == FF_NONE ? NULL : c->entry[i];
}

static int reserve_entry(struct ff_costs *c, struct ff_error *err)
{
	uint32_t cap = c->cap_entries ? 2 * c->cap_entries : 64;
	struct ff_cost **entry;

	if (c->n_entries < c->cap_entries)
		return FF_OK;
	entry = realloc(c->entry, cap * sizeof(*entry));
	if (!entry)
		return ff_fail_memory(err);
	c->entry = entry;
	c->cap_entries = cap;
	return FF_OK;
}

static int check_cost(const struct ff_cost *cost, struct ff_error *err)
{
	size_t length = cost->key ? strlen(cost->key) : 0;

	if (!length || length >= FF_COST_KEY_BYTES)
		return ff_fail(err, FF_E_INPUT, "a cost's key must have 1 to %d bytes",
				FF_COST_KEY_BYTES - 1);
	if (!(cost->median_us > 0 && cost->median_us <= FF_COST_MAX_US))
		return ff_fail(err, FF_E_INPUT,
				"median_us of \"%.200s\" must be above 0 and at most %g, not %g",
				cost->key, FF_COST_MAX_US, cost->median_us);
	if (!(cost->p10_us >= 0 && cost->p10_us <= cost->median_us &&
			    cost->median_us <= cost->p90_us && cost->p90_us <= FF_COST_MAX_US))
		return ff_fail(err, FF_E_INPUT,
				"\"%.200s\" must have 0 <= p10_us <= median_us <= p90_us, not %g, "
				"%g, %g",
				cost->key, cost->p10_us, cost->median_us, cost->p90_us);
	if (!(cost->alone_us >= 0 && cost->alone_us <= FF_COST_MAX_US))
		return ff_fail(err, FF_E_INPUT, "alone_us of \"%.200s\" must be 0 to %g, not %g",
				cost->key, FF_COST_MAX_US, cost->alone_us);
	if (!cost->samples)
		return ff_fail(err, FF_E_INPUT, "\"%.200s\" must have at least 1 sample",
				cost->key);
	if (cost->disturbed > cost->samples)
		return ff_fail(err, FF_E_INPUT,
				"\"%.200s\" has %u samples, of which %u cannot be disturbed",
				cost->key, cost->samples, cost->disturbed);
	if (cost->workspace_bytes < 0 || cost->reuse_bytes < 0)
		return ff_fail(err, FF_E_INPUT, "%s of \"%.200s\" must not be negative",
				cost->reuse_bytes < 0 ? "reuse_bytes" : "workspace_bytes",
				cost->key);
	return FF_OK;
}

int ff_costs_put(struct ff_costs *c, const struct ff_cost *cost, struct ff_error *err)
{
	int code = check_cost(cost, err);
	struct ff_cost *to;
	const char *key;
	uint64_t hash;
	uint32_t i;

	if (code == FF_OK)
		code = reserve_entry(c, err);
	if (code < 0)
		return code;
	hash = ff_fnv1a(cost->key, strlen(cost->key));
	i = find_entry(c, cost->key, hash, cost->reuse_bytes);
	if (i != FF_NONE && c->entry[i]->reuse_bytes == cost->reuse_bytes) {
		key = c->entry[i]->key;
		*c->entry[i] = *cost;
		c->entry[i]->key = key;
		return FF_OK;
	}
	key = ff_arena_strdup(&c->arena, cost->key);
	to = ff_arena_alloc(&c->arena, sizeof(*to));
	if (!key || !to || ff_table_put(&c->table, hash, c->n_entries) < 0)
		return ff_fail_memory(err);
	*to = *cost;
	to->key = key;
	c->entry[c->n_entries++] = to;
	return FF_OK;
}

const char *ff_rate_name(enum ff_rate_kind k)
{
	static const char *const name[FF_RATE_COUNT] = {
			[FF_RATE_COPY] = "copy",
			[FF_RATE_ADD] = "add",
			[FF_RATE_UPDATE] = "update",
			[FF_RATE_LOAD] = "load",
			[FF_RATE_UPDATE_SGD] = "update_sgd",
			[FF_RATE_UPDATE_NESTEROV] = "update_nesterov",
			[FF_RATE_UPDATE_ADAM] = "update_adam",
			[FF_RATE_UPDATE_ADAMW] = "update_adamw",
			[FF_RATE_UPDATE_BF16] = "update_bfloat16",
			[FF_RATE_UPDATE_SGD_BF16] = "update_sgd_bfloat16",
			[FF_RATE_UPDATE_NESTEROV_BF16] = "update_nesterov_bfloat16",
			[FF_RATE_UPDATE_ADAM_BF16] = "update_adam_bfloat16",
			[FF_RATE_UPDATE_ADAMW_BF16] = "update_adamw_bfloat16",
			[FF_RATE_ACCUMULATE] = "accumulate",
			[FF_RATE_UPLOAD] = "upload",
			[FF_RATE_DOWNLOAD] = "download",
			[FF_RATE_LOAD_IDS] = "load_ids",
			[FF_RATE_ENCODE + FF_CODEC_BF16] = "encode_bfloat16",
			[FF_RATE_ENCODE + FF_CODEC_TERNARY] = "encode_ternary",
			[FF_RATE_DECODE + FF_CODEC_BF16] = "decode_bfloat16",
			[FF_RATE_DECODE + FF_CODEC_TERNARY] = "decode_ternary",
	};

	return name[k];
}

/* Whether `a` was measured more like it than `b`: the size of samples counts first. */
static bool is_rate_nearer(const struct ff_rate *a, const struct ff_rate *b, int64_t sample_bytes,
		int64_t reuse_bytes)
{
	if (a->sample_bytes != b->sample_bytes)
		return is_nearer(a->sample_bytes, b->sample_bytes, sample_bytes);
	return is_nearer(a->reuse_bytes, b->reuse_bytes, reuse_bytes);
}

const struct ff_rate *ff_costs_load_rate(const struct ff_costs *c, enum ff_rate_kind k,
		int64_t sample_bytes, int64_t reuse_bytes)
{
	const struct ff_rates *r = &c->rates[k];
	const struct ff_rate *best = NULL;

	for (uint32_t i = 0; i < r->n; i++)
		if (!best || is_rate_nearer(&r->rate[i], best, sample_bytes, reuse_bytes))
			best = &r->rate[i];
	return best;
}

const struct ff_rate *ff_costs_rate(
		const struct ff_costs *c, enum ff_rate_kind k, int64_t reuse_bytes)
{
	return ff_costs_load_rate(c, k, 0, reuse_bytes);
}

/* How they are sorted. */
static bool is_before(const struct ff_rate *a, const struct ff_rate *b)
{
	return a->sample_bytes != b->sample_bytes ? a->sample_bytes < b->sample_bytes
						  : a->reuse_bytes < b->reuse_bytes;
}

int ff_costs_set_rate(
		struct ff_costs *c, enum ff_rate_kind k, struct ff_rate r, struct ff_error *err)
{
	struct ff_rates *to = &c->rates[k];
	uint32_t i = 0;
	int code;

	while (i < to->n && is_before(&to->rate[i], &r))
		i++;
	if (i == to->n || is_before(&r, &to->rate[i])) {
		code = ff_grow(&to->rate, to->n, &to->cap, sizeof(*to->rate), err);
		if (code < 0)
			return code;
		memmove(to->rate + i + 1, to->rate + i, (to->n - i) * sizeof(*to->rate));
		to->n++;
	}
	to->rate[i] = r;
	return FF_OK;
}

struct ff_rate ff_costs_link(const struct ff_costs *c)
{
	return c->link;
}

void ff_costs_set_link(struct ff_costs *c, struct ff_rate r)
{
	if (r.bytes_per_us > 0)
		r.bytes_per_us = fmax(round(r.bytes_per_us * 1e6), 1) / 1e6;
	c->link = r;
}

static struct ff_comm_cost *find_comm(const struct ff_costs *c, struct ff_comm_shape s)
{
	for (uint32_t i = 0; i < c->n_comm; i++) {
		const struct ff_comm_shape *t = &c->comm[i]->shape;

		if (t->kind == s.kind && t->ranks == s.ranks && t->nodes == s.nodes &&
				t->one_way == s.one_way)
			return c->comm[i];
	}
	return NULL;
}

const struct ff_comm_cost *ff_costs_comm(const struct ff_costs *c, struct ff_comm_shape shape)
{
	return find_comm(c, shape);
}

static int check_shape(const struct ff_comm_shape *s, struct ff_error *err)
{
	if (s->kind < FF_MOVE_POINT_TO_POINT || s->kind > FF_MOVE_ALL_REDUCE)
		return ff_fail(err, FF_E_INPUT, "\"%s\" is no communication between devices",
				ff_move_name(s->kind));
	if (s->ranks < 2 || s->ranks > FF_MAX_DEVICES)
		return ff_fail(err, FF_E_INPUT, "ranks must be 2 to %d, not %u", FF_MAX_DEVICES,
				s->ranks);
	if (!s->nodes || s->ranks % s->nodes)
		return ff_fail(err, FF_E_INPUT,
				"%u ranks on %u nodes: every node must have as many", s->ranks,
				s->nodes);
	if (s->one_way && (s->kind != FF_MOVE_POINT_TO_POINT || s->ranks != 2))
		return ff_fail(err, FF_E_INPUT, "only point-to-point of 2 ranks goes one way");
	return FF_OK;
}

static int check_comm(const struct ff_comm_cost *cc, struct ff_error *err)
{
	int code = check_shape(&cc->shape, err);

	if (code < 0)
		return code;
	if (!cc->n)
		return ff_fail(err, FF_E_INPUT, "at least one size must be measured");
	for (uint32_t i = 0; i < cc->n; i++) {
		if (!(cc->bytes[i] >= 0 && cc->bytes[i] <= FF_COST_MAX_BYTES))
			return ff_fail(err, FF_E_INPUT, "bytes[%u] must be 0 to 2^53, not %g", i,
					cc->bytes[i]);
		if (i && !(cc->bytes[i] > cc->bytes[i - 1]))
			return ff_fail(err, FF_E_INPUT, "bytes must ascend: %.17g follows %.17g",
					cc->bytes[i], cc->bytes[i - 1]);
		if (!(cc->us[i] >= 0 && cc->us[i] <= FF_COST_MAX_US))
			return ff_fail(err, FF_E_INPUT, "us[%u] must be 0 to %g, not %g", i,
					FF_COST_MAX_US, cc->us[i]);
	}
	if (cc->disturbed > cc->n)
		return ff_fail(err, FF_E_INPUT, "of %u sizes %u cannot be disturbed", cc->n,
				cc->disturbed);
	return FF_OK;
}

static int add_comm(struct ff_costs *c, struct ff_comm_cost *comm, struct ff_error *err)
{
	uint32_t cap = c->cap_comm ? 2 * c->cap_comm : 16;
	struct ff_comm_cost **all;

	if (c->n_comm == c->cap_comm) {
		all = realloc(c->comm, cap * sizeof(*all));
		if (!all)
			return ff_fail_memory(err);
		c->comm = all;
		c->cap_comm = cap;
	}
	c->comm[c->n_comm++] = comm;
	return FF_OK;
}

int ff_costs_put_comm(struct ff_costs *c, const struct ff_comm_cost *cc, struct ff_error *err)
{
	struct ff_comm_cost copy = *cc, *to = find_comm(c, cc->shape);
	int code = check_comm(cc, err);
	bool fresh = !to;

	if (code < 0)
		return code;
	copy.bytes = ff_arena_copy(&c->arena, cc->bytes, cc->n, sizeof(*cc->bytes));
	copy.us = ff_arena_copy(&c->arena, cc->us, cc->n, sizeof(*cc->us));
	if (fresh)
		to = ff_arena_alloc(&c->arena, sizeof(*to));
	if (!copy.bytes || !copy.us || !to)
		return ff_fail_memory(err);
	if (fresh && (code = add_comm(c, to, err)) < 0)
		return code;
	*to = copy;
	return FF_OK;
}

const struct ff_steadiness *ff_costs_steadiness(const struct ff_costs *c)
{
	return &c->steadiness;
}

void ff_costs_set_steadiness(struct ff_costs *c, const struct ff_steadiness *s)
{
	c->steadiness = *s;
}

const struct ff_launches *ff_costs_launch(const struct ff_costs *c)
{
	return &c->launch;
}

void ff_costs_set_launch(struct ff_costs *c, const struct ff_launches *l)
{
	c->launch = *l;
}

double ff_costs_steady_share(const struct ff_costs *c)
{
	bool linked = c->link.bytes_per_us > 0;
	uint32_t lines = c->n_comm + linked;
	double us = 0, steady_us = 0, share, steady = linked && !c->link.disturbed;

	for (uint32_t i = 0; i < c->n_entries; i++) {
		us += c->entry[i]->median_us;
		steady_us += c->entry[i]->disturbed ? 0 : c->entry[i]->median_us;
	}
	for (uint32_t i = 0; i < c->n_comm; i++)
		steady += 1 - (double)c->comm[i]->disturbed / c->comm[i]->n;
	for (int k = 0; k < FF_RATE_COUNT; k++)
		for (uint32_t i = 0; i < c->rates[k].n; i++) {
			lines++;
			steady += !c->rates[k].rate[i].disturbed;
		}
	share = us > 0 ? steady_us / us : 1;
	return lines && steady / lines < share ? steady / lines : share;
}
