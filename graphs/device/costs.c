/* Cost database: entries by key in a hash table, rates, links and collective
 * tables beside it; JSON in and out.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/hash.h"

#define COSTS_FORMAT "ffsoap-costs"
#define COSTS_VERSION 1
#define MAX_US 1e15 /* thirty years: anything above is a typing error */
#define MAX_BYTES_PER_S 1e18
#define MAX_BYTES 9007199254740992.0 /* 2^53: doubles count in ones up to here */

struct ff_costs {
	struct ff_arena arena; /* strings, entries, tables */
	const char *device_kind;
	struct ff_cost **entry; /* by order of arrival: their addresses stay */
	uint32_t n_entries, cap_entries;
	struct ff_table table; /* keys to entries */
	struct ff_comm_cost **comm;
	uint32_t n_comm, cap_comm;
	bool has_rate[FF_RATE_COUNT];
	struct ff_rate rate[FF_RATE_COUNT];
	struct ff_rate link;
};

int ff_costs_create(const char *device_kind, struct ff_costs **ret, struct ff_error *err)
{
	struct ff_costs *c = calloc(1, sizeof(*c));
	if (!c)
		return ff_fail_memory(err);
	ff_arena_init(&c->arena);
	c->device_kind = ff_arena_strdup(&c->arena, device_kind);
	if (!c->device_kind) {
		ff_costs_destroy(c);
		return ff_fail_memory(err);
	}
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
	ff_arena_finish(&c->arena);
	free(c);
}

const char *ff_costs_device_kind(const struct ff_costs *c)
{
	return c->device_kind;
}

uint32_t ff_costs_count(const struct ff_costs *c)
{
	return c->n_entries;
}

static uint32_t find_entry(const struct ff_costs *c, const char *key, uint64_t hash)
{
	uint32_t at, i;

	for (i = ff_table_first(&c->table, hash, &at); i != FF_NONE;
			i = ff_table_next(&c->table, hash, &at))
		if (!strcmp(c->entry[i]->key, key))
			return i;
	return FF_NONE;
}

const struct ff_cost *ff_costs_find(const struct ff_costs *c, const char *key)
{
	uint32_t i = find_entry(c, key, ff_fnv1a(key, strlen(key)));

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
	if (!(cost->median_us > 0 && cost->median_us <= MAX_US))
		return ff_fail(err, FF_E_INPUT,
				"median_us of \"%.200s\" must be above 0 and at most %g, not %g",
				cost->key, MAX_US, cost->median_us);
	if (!(cost->p10_us >= 0 && cost->p10_us <= cost->median_us &&
			    cost->median_us <= cost->p90_us && cost->p90_us <= MAX_US))
		return ff_fail(err, FF_E_INPUT,
				"\"%.200s\" must have 0 <= p10_us <= median_us <= p90_us, not %g, "
				"%g, %g",
				cost->key, cost->p10_us, cost->median_us, cost->p90_us);
	if (!cost->samples)
		return ff_fail(err, FF_E_INPUT, "\"%.200s\" must have at least 1 sample",
				cost->key);
	if (cost->workspace_bytes < 0)
		return ff_fail(err, FF_E_INPUT,
				"workspace_bytes of \"%.200s\" must not be negative", cost->key);
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
	i = find_entry(c, cost->key, hash);
	if (i != FF_NONE) {
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
	};
	return name[k];
}

const struct ff_rate *ff_costs_rate(const struct ff_costs *c, enum ff_rate_kind k)
{
	return c->has_rate[k] ? &c->rate[k] : NULL;
}

void ff_costs_set_rate(struct ff_costs *c, enum ff_rate_kind k, struct ff_rate r)
{
	c->rate[k] = r;
	c->has_rate[k] = true;
}

struct ff_rate ff_costs_link(const struct ff_costs *c)
{
	return c->link;
}

void ff_costs_set_link(struct ff_costs *c, struct ff_rate r)
{
	c->link = r;
}

static struct ff_comm_cost *find_comm(
		const struct ff_costs *c, enum ff_move_kind kind, uint32_t ranks)
{
	for (uint32_t i = 0; i < c->n_comm; i++)
		if (c->comm[i]->kind == kind && c->comm[i]->ranks == ranks)
			return c->comm[i];
	return NULL;
}

const struct ff_comm_cost *ff_costs_comm(
		const struct ff_costs *c, enum ff_move_kind kind, uint32_t ranks)
{
	return find_comm(c, kind, ranks);
}

static int check_comm(const struct ff_comm_cost *cc, struct ff_error *err)
{
	if (cc->kind < FF_MOVE_POINT_TO_POINT || cc->kind > FF_MOVE_ALL_REDUCE)
		return ff_fail(err, FF_E_INPUT, "\"%s\" is no communication between devices",
				ff_move_name(cc->kind));
	if (cc->ranks < 2 || cc->ranks > FF_MAX_DEVICES)
		return ff_fail(err, FF_E_INPUT, "ranks must be 2 to %d, not %u", FF_MAX_DEVICES,
				cc->ranks);
	if (!cc->n)
		return ff_fail(err, FF_E_INPUT, "at least one size must be measured");
	for (uint32_t i = 0; i < cc->n; i++) {
		if (!(cc->bytes[i] >= 0 && cc->bytes[i] <= MAX_BYTES))
			return ff_fail(err, FF_E_INPUT, "bytes[%u] must be 0 to 2^53, not %g", i,
					cc->bytes[i]);
		if (i && !(cc->bytes[i] > cc->bytes[i - 1]))
			return ff_fail(err, FF_E_INPUT, "bytes must ascend: %.17g follows %.17g",
					cc->bytes[i], cc->bytes[i - 1]);
		if (!(cc->us[i] >= 0 && cc->us[i] <= MAX_US))
			return ff_fail(err, FF_E_INPUT, "us[%u] must be 0 to %g, not %g", i, MAX_US,
					cc->us[i]);
	}
	return FF_OK;
}

static int add_comm(struct ff_costs *c, struct ff_comm_cost *comm, struct ff_error *err)
{
	if (c->n_comm == c->cap_comm) {
		uint32_t cap = c->cap_comm ? 2 * c->cap_comm : 16;
		struct ff_comm_cost **all = realloc(c->comm, cap * sizeof(struct ff_comm_cost *));
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
	int code = check_comm(cc, err);
	if (code != FF_OK)
		return code;
	struct ff_comm_cost copy = *cc;
	copy.bytes = ff_arena_copy(&c->arena, cc->bytes, cc->n, sizeof(double));
	copy.us = ff_arena_copy(&c->arena, cc->us, cc->n, sizeof(double));
	struct ff_comm_cost *to = find_comm(c, cc->kind, cc->ranks);
	bool fresh = !to;
	if (fresh)
		to = ff_arena_alloc(&c->arena, sizeof(*to));
	if (!copy.bytes || !copy.us || !to)
		return ff_fail_memory(err);
	if (fresh)
		code = add_comm(c, to, err);
	if (code != FF_OK)
		return code;
	*to = copy;
	return FF_OK;
}

/* Reading. */

static int read_rate(const struct ff_json *object, struct ff_rate *ret, struct ff_error *err)
{
	static const char *const keys[] = {"latency_us", "bytes_per_s", NULL};
	double latency_us, bytes_per_s;
	int code = ff_json_only(object, keys, err);
	if (code == FF_OK)
		code = ff_json_real(object, "latency_us", 0, MAX_US, &latency_us, err);
	if (code == FF_OK)
		code = ff_json_real(object, "bytes_per_s", 1, MAX_BYTES_PER_S, &bytes_per_s, err);
	if (code == FF_OK)
		*ret = (struct ff_rate){latency_us, bytes_per_s / 1e6};
	return code;
}

static int read_rates(struct ff_costs *c, const struct ff_json *rates, struct ff_error *err)
{
	const char *keys[FF_RATE_COUNT + 1] = {NULL};
	for (int k = 0; k < FF_RATE_COUNT; k++)
		keys[k] = ff_rate_name((enum ff_rate_kind)k);
	int code = ff_json_only(rates, keys, err);
	for (int k = 0; k < FF_RATE_COUNT && code == FF_OK; k++) {
		const struct ff_json *at = ff_json_get(rates, keys[k]);
		struct ff_rate rate;
		if (!at)
			continue;
		code = read_rate(at, &rate, err);
		if (code == FF_OK)
			ff_costs_set_rate(c, (enum ff_rate_kind)k, rate);
	}
	return code;
}

/* A sentence that does not know its place yet gets it here. */
static int place(const struct ff_json *at, const struct ff_error *why, struct ff_error *err)
{
	if (why->code != FF_E_INPUT)
		return ff_fail(err, why->code, "%s", why->text);
	return ff_json_fail(at, err, "%s", why->text);
}

static int read_entry(struct ff_costs *c, const struct ff_json *at, struct ff_error *err)
{
	static const char *const keys[] = {
			"key", "median_us", "p10_us", "p90_us", "samples", "workspace_bytes", NULL};
	struct ff_cost cost;
	int64_t samples;
	int code = ff_json_only(at, keys, err);
	if (code == FF_OK)
		code = ff_json_string(at, "key", &cost.key, err);
	if (code == FF_OK)
		code = ff_json_real(at, "median_us", 0, MAX_US, &cost.median_us, err);
	if (code == FF_OK)
		code = ff_json_real(at, "p10_us", 0, MAX_US, &cost.p10_us, err);
	if (code == FF_OK)
		code = ff_json_real(at, "p90_us", 0, MAX_US, &cost.p90_us, err);
	if (code == FF_OK)
		code = ff_json_int(at, "samples", 1, UINT32_MAX, &samples, err);
	if (code == FF_OK)
		code = ff_json_int(at, "workspace_bytes", 0, (int64_t)MAX_BYTES,
				&cost.workspace_bytes, err);
	if (code != FF_OK)
		return code;
	if (ff_costs_find(c, cost.key))
		return ff_json_fail(ff_json_get(at, "key"), err,
				"expected each key once, but \"%.200s\" stands here again",
				cost.key);
	cost.samples = (uint32_t)samples;
	struct ff_error why = {0};
	code = ff_costs_put(c, &cost, &why);
	return code != FF_OK ? place(at, &why, err) : FF_OK;
}

static int read_numbers(const struct ff_json *array, uint32_t n, double *ret, struct ff_error *err)
{
	if (array->n != n)
		return ff_json_fail(array, err, "expected %u numbers, one for each size, not %u", n,
				array->n);
	for (uint32_t i = 0; i < n; i++) {
		if (array->child[i].type != FF_JSON_NUMBER)
			return ff_json_fail(&array->child[i], err, "expected a number");
		ret[i] = array->child[i].number;
	}
	return FF_OK;
}

static int read_move_kind(const struct ff_json *at, enum ff_move_kind *ret, struct ff_error *err)
{
	const char *name;
	int code = ff_json_string(at, "kind", &name, err);
	if (code != FF_OK)
		return code;
	for (int k = FF_MOVE_POINT_TO_POINT; k <= FF_MOVE_ALL_REDUCE; k++) {
		if (!strcmp(name, ff_move_name((enum ff_move_kind)k))) {
			*ret = (enum ff_move_kind)k;
			return FF_OK;
		}
	}
	return ff_json_fail(ff_json_get(at, "kind"), err,
			"expected a communication such as \"all-reduce\" or \"point-to-point\", "
			"not \"%.60s\"",
			name);
}

static int read_comm(struct ff_costs *c, const struct ff_json *at, struct ff_arena *scratch,
		struct ff_error *err)
{
	static const char *const keys[] = {"kind", "ranks", "bytes", "us", NULL};
	struct ff_comm_cost cc = {0};
	const struct ff_json *bytes, *us;
	int64_t ranks;
	int code = ff_json_only(at, keys, err);
	if (code == FF_OK)
		code = read_move_kind(at, &cc.kind, err);
	if (code == FF_OK)
		code = ff_json_int(at, "ranks", 2, FF_MAX_DEVICES, &ranks, err);
	if (code == FF_OK)
		code = ff_json_need(at, "bytes", FF_JSON_ARRAY, &bytes, err);
	if (code == FF_OK)
		code = ff_json_need(at, "us", FF_JSON_ARRAY, &us, err);
	if (code != FF_OK)
		return code;
	cc.ranks = (uint32_t)ranks;
	cc.n = bytes->n;
	cc.bytes = ff_arena_array(scratch, cc.n, sizeof(double));
	cc.us = ff_arena_array(scratch, cc.n, sizeof(double));
	if (!cc.bytes || !cc.us)
		return ff_fail_memory(err);
	code = read_numbers(bytes, cc.n, cc.bytes, err);
	if (code == FF_OK)
		code = read_numbers(us, cc.n, cc.us, err);
	if (code != FF_OK)
		return code;
	if (find_comm(c, cc.kind, cc.ranks))
		return ff_json_fail(at, err,
				"expected one table of %s among %u ranks, but here is another",
				ff_move_name(cc.kind), cc.ranks);
	struct ff_error why = {0};
	code = ff_costs_put_comm(c, &cc, &why);
	return code != FF_OK ? place(at, &why, err) : FF_OK;
}

/* The member if it is there and of the type; NULL if it is absent. */
static int optional(const struct ff_json *root, const char *key, enum ff_json_type type,
		const struct ff_json **ret, struct ff_error *err)
{
	*ret = NULL;
	return ff_json_get(root, key) ? ff_json_need(root, key, type, ret, err) : FF_OK;
}

static int read_members(struct ff_costs *c, const struct ff_json *root, struct ff_arena *scratch,
		struct ff_error *err)
{
	const struct ff_json *rates, *link, *comm, *entries;
	int code = optional(root, "rates", FF_JSON_OBJECT, &rates, err);
	if (code == FF_OK && rates)
		code = read_rates(c, rates, err);
	if (code == FF_OK)
		code = optional(root, "link", FF_JSON_OBJECT, &link, err);
	if (code == FF_OK && link)
		code = read_rate(link, &c->link, err);
	if (code == FF_OK)
		code = optional(root, "comm", FF_JSON_ARRAY, &comm, err);
	for (uint32_t i = 0; code == FF_OK && comm && i < comm->n; i++)
		code = read_comm(c, &comm->child[i], scratch, err);
	if (code == FF_OK)
		code = ff_json_need(root, "entries", FF_JSON_ARRAY, &entries, err);
	for (uint32_t i = 0; code == FF_OK && i < entries->n; i++)
		code = read_entry(c, &entries->child[i], err);
	return code;
}

static int read_root(const char *path, struct ff_arena *scratch, struct ff_costs **ret,
		struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "device_kind", "rates", "link",
			"comm", "entries", NULL};
	const struct ff_json *root;
	const char *kind;
	struct ff_costs *c = NULL;
	int code = ff_json_load(path, scratch, &root, err);
	if (code == FF_OK)
		code = ff_json_format(root, COSTS_FORMAT, COSTS_VERSION, err);
	if (code == FF_OK)
		code = ff_json_only(root, keys, err);
	if (code == FF_OK)
		code = ff_json_string(root, "device_kind", &kind, err);
	if (code == FF_OK && !*kind)
		code = ff_json_fail(ff_json_get(root, "device_kind"), err,
				"expected the name of a device kind");
	if (code == FF_OK)
		code = ff_costs_create(kind, &c, err);
	if (code != FF_OK)
		return code;
	code = read_members(c, root, scratch, err);
	if (code != FF_OK) {
		ff_costs_destroy(c);
		return code;
	}
	*ret = c;
	return FF_OK;
}

int ff_costs_load(const char *path, struct ff_costs **ret, struct ff_error *err)
{
	struct ff_arena scratch;
	ff_arena_init(&scratch);
	int code = read_root(path, &scratch, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

/* Writing. */

static void write_rate(struct ff_out *o, const char *key, struct ff_rate r)
{
	ff_out_object(o, key);
	ff_out_real(o, "latency_us", r.latency_us);
	/* Whole bytes a second, so that reading and writing again changes nothing. */
	ff_out_real(o, "bytes_per_s", fmax(round(r.bytes_per_us * 1e6), 1));
	ff_out_close(o);
}

static void write_comm(struct ff_out *o, const struct ff_comm_cost *cc)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "kind", ff_move_name(cc->kind));
	ff_out_int(o, "ranks", cc->ranks);
	ff_out_array(o, "bytes");
	for (uint32_t i = 0; i < cc->n; i++)
		ff_out_real(o, NULL, cc->bytes[i]);
	ff_out_close(o);
	ff_out_array(o, "us");
	for (uint32_t i = 0; i < cc->n; i++)
		ff_out_real(o, NULL, cc->us[i]);
	ff_out_close(o);
	ff_out_close(o);
}

static void write_entry(struct ff_out *o, const struct ff_cost *cost)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "key", cost->key);
	ff_out_real(o, "median_us", cost->median_us);
	ff_out_real(o, "p10_us", cost->p10_us);
	ff_out_real(o, "p90_us", cost->p90_us);
	ff_out_int(o, "samples", cost->samples);
	ff_out_int(o, "workspace_bytes", cost->workspace_bytes);
	ff_out_close(o);
}

static int by_key(const void *a, const void *b)
{
	const struct ff_cost *x = *(const struct ff_cost *const *)a;
	const struct ff_cost *y = *(const struct ff_cost *const *)b;
	return strcmp(x->key, y->key);
}

static int by_kind_and_ranks(const void *a, const void *b)
{
	const struct ff_comm_cost *x = *(const struct ff_comm_cost *const *)a;
	const struct ff_comm_cost *y = *(const struct ff_comm_cost *const *)b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->ranks < y->ranks ? -1 : x->ranks > y->ranks;
}

/* Writes entries and tables in a fixed order through sorted copies of the
 * pointer arrays, so that `c` stays const. */
static void write_sorted(const struct ff_costs *c, struct ff_out *o)
{
	struct ff_cost **entry = malloc((c->n_entries + 1) * sizeof(struct ff_cost *));
	struct ff_comm_cost **comm = malloc((c->n_comm + 1) * sizeof(struct ff_comm_cost *));
	if (entry && comm) {
		for (uint32_t i = 0; i < c->n_entries; i++)
			entry[i] = c->entry[i];
		for (uint32_t i = 0; i < c->n_comm; i++)
			comm[i] = c->comm[i];
		qsort(entry, c->n_entries, sizeof(struct ff_cost *), by_key);
		qsort(comm, c->n_comm, sizeof(struct ff_comm_cost *), by_kind_and_ranks);
		ff_out_array(o, "comm");
		for (uint32_t i = 0; i < c->n_comm; i++)
			write_comm(o, comm[i]);
		ff_out_close(o);
		ff_out_array(o, "entries");
		for (uint32_t i = 0; i < c->n_entries; i++)
			write_entry(o, entry[i]);
		ff_out_close(o);
	} else {
		o->failed = true;
	}
	free(entry);
	free(comm);
}

void ff_costs_write(const struct ff_costs *c, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", COSTS_FORMAT);
	ff_out_int(o, "version", COSTS_VERSION);
	ff_out_string(o, "device_kind", c->device_kind);
	ff_out_object(o, "rates");
	for (int k = 0; k < FF_RATE_COUNT; k++)
		if (c->has_rate[k])
			write_rate(o, ff_rate_name((enum ff_rate_kind)k), c->rate[k]);
	ff_out_close(o);
	if (c->link.bytes_per_us > 0)
		write_rate(o, "link", c->link);
	write_sorted(c, o);
	ff_out_close(o);
}
