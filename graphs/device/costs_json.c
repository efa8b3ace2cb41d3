/* Cost files read from JSON.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costs.h"

#define MAX_BYTES_PER_S 1e18

/* "disturbed", which only figures have that something disturbed. */
static int read_disturbed(const struct ff_json *object, uint32_t *ret, struct ff_error *err)
{
	int64_t n = 0;
	int code = FF_OK;

	if (ff_json_get(object, "disturbed"))
		code = ff_json_int(object, "disturbed", 0, UINT32_MAX, &n, err);
	if (code == FF_OK)
		*ret = (uint32_t)n;
	return code;
}

static int read_passed(const struct ff_json *object, int64_t *ret, struct ff_error *err)
{
	return ff_json_int(object, "reuse_bytes", 0, (int64_t)FF_COST_MAX_BYTES, ret, err);
}

/* What a line is, besides what went by before it was measured. */
static int read_line(const struct ff_json *object, struct ff_rate *ret, struct ff_error *err)
{
	double latency_us, bytes_per_s;
	uint32_t disturbed;
	int code = ff_json_real(object, "latency_us", 0, FF_COST_MAX_US, &latency_us, err);

	if (code == FF_OK)
		code = ff_json_real(object, "bytes_per_s", 1, MAX_BYTES_PER_S, &bytes_per_s, err);
	if (code == FF_OK)
		code = read_disturbed(object, &disturbed, err);
	if (code == FF_OK)
		*ret = (struct ff_rate){latency_us, bytes_per_s / 1e6, disturbed, 0, 0, 0};
	return code;
}

static int read_link(const struct ff_json *object, struct ff_rate *ret, struct ff_error *err)
{
	static const char *const keys[] = {"latency_us", "bytes_per_s", "disturbed", NULL};
	int code = ff_json_only(object, keys, err);

	return code == FF_OK ? read_line(object, ret, err) : code;
}

static int read_rate(struct ff_costs *c, enum ff_rate_kind k, const struct ff_json *at,
		struct ff_error *err)
{
	static const char *const keys[] = {"reuse_bytes", "latency_us", "bytes_per_s",
			"short_bytes_per_s", "sample_bytes", "disturbed", NULL};
	const struct ff_rate *known;
	struct ff_rate rate;
	double short_bytes_per_s = 0;
	int64_t reuse_bytes = 0, sample_bytes = 0;
	int code = ff_json_only(at, keys, err);

	if (code == FF_OK)
		code = read_line(at, &rate, err);
	if (code == FF_OK)
		code = read_passed(at, &reuse_bytes, err);
	if (code == FF_OK && ff_json_get(at, "short_bytes_per_s"))
		code = ff_json_real(at, "short_bytes_per_s", 1, MAX_BYTES_PER_S, &short_bytes_per_s,
				err);
	if (code == FF_OK && ff_json_get(at, "sample_bytes"))
		code = ff_json_int(at, "sample_bytes", 1, (int64_t)FF_COST_MAX_BYTES, &sample_bytes,
				err);
	if (code != FF_OK)
		return code;
	known = ff_costs_load_rate(c, k, sample_bytes, reuse_bytes);
	if (known && known->reuse_bytes == reuse_bytes && known->sample_bytes == sample_bytes)
		return ff_json_fail(at, err,
				"expected each reuse_bytes once, but %" PRId64 " stands here again",
				reuse_bytes);
	rate.reuse_bytes = reuse_bytes;
	rate.sample_bytes = sample_bytes;
	rate.short_bytes_per_us = short_bytes_per_s / 1e6;
	return ff_costs_set_rate(c, k, rate, err);
}

static int read_rates(struct ff_costs *c, const struct ff_json *rates, struct ff_error *err)
{
	const char *keys[FF_RATE_COUNT + 1] = {NULL};
	int code;

	for (int k = 0; k < FF_RATE_COUNT; k++)
		keys[k] = ff_rate_name((enum ff_rate_kind)k);
	code = ff_json_only(rates, keys, err);
	for (int k = 0; k < FF_RATE_COUNT && code == FF_OK; k++) {
		const struct ff_json *at;

		if (!ff_json_get(rates, keys[k]))
			continue;
		code = ff_json_need(rates, keys[k], FF_JSON_ARRAY, &at, err);
		for (uint32_t i = 0; code == FF_OK && i < at->n; i++)
			code = read_rate(c, (enum ff_rate_kind)k, &at->child[i], err);
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
	static const char *const keys[] = {"key", "reuse_bytes", "median_us", "p10_us", "p90_us",
			"alone_us", "samples", "disturbed", "workspace_bytes", NULL};
	const struct ff_cost *known;
	struct ff_error why = {0};
	struct ff_cost cost = {.alone_us = 0};
	int64_t samples;
	int code = ff_json_only(at, keys, err);

	if (code == FF_OK)
		code = ff_json_string(at, "key", &cost.key, err);
	if (code == FF_OK)
		code = read_passed(at, &cost.reuse_bytes, err);
	if (code == FF_OK)
		code = ff_json_real(at, "median_us", 0, FF_COST_MAX_US, &cost.median_us, err);
	if (code == FF_OK)
		code = ff_json_real(at, "p10_us", 0, FF_COST_MAX_US, &cost.p10_us, err);
	if (code == FF_OK)
		code = ff_json_real(at, "p90_us", 0, FF_COST_MAX_US, &cost.p90_us, err);
	if (code == FF_OK && ff_json_get(at, "alone_us"))
		code = ff_json_real(at, "alone_us", 0, FF_COST_MAX_US, &cost.alone_us, err);
	if (code == FF_OK)
		code = ff_json_int(at, "samples", 1, UINT32_MAX, &samples, err);
	if (code == FF_OK)
		code = read_disturbed(at, &cost.disturbed, err);
	if (code == FF_OK)
		code = ff_json_int(at, "workspace_bytes", 0, (int64_t)FF_COST_MAX_BYTES,
				&cost.workspace_bytes, err);
	if (code != FF_OK)
		return code;
	known = ff_costs_find(c, cost.key, cost.reuse_bytes);
	if (known && known->reuse_bytes == cost.reuse_bytes)
		return ff_json_fail(ff_json_get(at, "key"), err,
				"expected each key once with each reuse_bytes, but \"%.200s\" "
				"with %" PRId64 " stands here again",
				cost.key, cost.reuse_bytes);
	cost.samples = (uint32_t)samples;
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
	for (int k = FF_MOVE_POINT_TO_POINT; k <= FF_MOVE_ALL_REDUCE; k++)
		if (!strcmp(name, ff_move_name((enum ff_move_kind)k))) {
			*ret = (enum ff_move_kind)k;
			return FF_OK;
		}
	return ff_json_fail(ff_json_get(at, "kind"), err,
			"expected a communication such as \"all-reduce\" or \"point-to-point\", "
			"not \"%.60s\"",
			name);
}

/* What the table of a communication says, its sizes and times in `scratch`. */
static int read_table(const struct ff_json *at, struct ff_arena *scratch, struct ff_comm_cost *ret,
		struct ff_error *err)
{
	const struct ff_json *bytes, *us;
	int code = ff_json_need(at, "bytes", FF_JSON_ARRAY, &bytes, err);

	if (code == FF_OK)
		code = ff_json_need(at, "us", FF_JSON_ARRAY, &us, err);
	if (code != FF_OK)
		return code;
	ret->n = bytes->n;
	ret->bytes = ff_arena_array(scratch, ret->n, sizeof(*ret->bytes));
	ret->us = ff_arena_array(scratch, ret->n, sizeof(*ret->us));
	if (!ret->bytes || !ret->us)
		return ff_fail_memory(err);
	code = read_numbers(bytes, ret->n, ret->bytes, err);
	return code != FF_OK ? code : read_numbers(us, ret->n, ret->us, err);
}

/* "nodes" and "one_way" have only tables of what one node, and both ways, would not say. */
static int read_shape(const struct ff_json *at, struct ff_comm_shape *ret, struct ff_error *err)
{
	int64_t ranks = 0, nodes = 1;
	int code = read_move_kind(at, &ret->kind, err);

	if (code == FF_OK)
		code = ff_json_int(at, "ranks", 2, FF_MAX_DEVICES, &ranks, err);
	if (code == FF_OK && ff_json_get(at, "nodes"))
		code = ff_json_int(at, "nodes", 2, FF_MAX_DEVICES, &nodes, err);
	if (code == FF_OK && ff_json_get(at, "one_way"))
		code = ff_json_bool(at, "one_way", &ret->one_way, err);
	ret->ranks = (uint32_t)ranks;
	ret->nodes = (uint32_t)nodes;
	return code;
}

static int read_comm(struct ff_costs *c, const struct ff_json *at, struct ff_arena *scratch,
		struct ff_error *err)
{
	static const char *const keys[] = {
			"kind", "ranks", "nodes", "one_way", "bytes", "us", "disturbed", NULL};
	struct ff_comm_cost cc = {.n = 0};
	struct ff_error why = {0};
	int code = ff_json_only(at, keys, err);

	if (code == FF_OK)
		code = read_shape(at, &cc.shape, err);
	if (code == FF_OK)
		code = read_disturbed(at, &cc.disturbed, err);
	if (code == FF_OK)
		code = read_table(at, scratch, &cc, err);
	if (code != FF_OK)
		return code;
	if (ff_costs_comm(c, cc.shape))
		return ff_json_fail(at, err,
				"expected one table of %s among %u ranks on as many nodes%s, but "
				"here is another",
				ff_move_name(cc.shape.kind), cc.shape.ranks,
				cc.shape.one_way ? ", one way" : "");
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

static int read_count(
		const struct ff_json *object, const char *key, uint32_t *ret, struct ff_error *err)
{
	int64_t n;
	int code = ff_json_int(object, key, 1, UINT32_MAX, &n, err);

	if (code == FF_OK)
		*ret = (uint32_t)n;
	return code;
}

/* What not all files have: that of devices that are not the host, and of several ranks. */
static int read_device(const struct ff_json *at, struct ff_origin *o, struct ff_error *err)
{
	int code = FF_OK;

	if (ff_json_get(at, "driver"))
		code = ff_json_string(at, "driver", &o->driver, err);
	if (code == FF_OK && ff_json_get(at, "clock_mhz"))
		code = read_count(at, "clock_mhz", &o->clock_mhz, err);
	if (code == FF_OK && ff_json_get(at, "memory_clock_mhz"))
		code = read_count(at, "memory_clock_mhz", &o->memory_clock_mhz, err);
	if (code == FF_OK && ff_json_get(at, "communication"))
		code = ff_json_string(at, "communication", &o->communication, err);
	if (code == FF_OK && ff_json_get(at, "topology"))
		code = ff_json_string(at, "topology", &o->topology, err);
	return code;
}

static int read_origin(struct ff_costs *c, const struct ff_json *root, struct ff_error *err)
{
	static const char *const keys[] = {"processor", "kernels", "mpi", "cores", "threads",
			"ranks", "hosts", "driver", "clock_mhz", "memory_clock_mhz",
			"communication", "topology", NULL};
	const struct ff_json *at;
	struct ff_origin o = {.driver = ""};
	int code;

	if ((code = ff_json_need(root, "machine", FF_JSON_OBJECT, &at, err)) < 0 ||
			(code = ff_json_only(at, keys, err)) < 0 ||
			(code = ff_json_string(at, "processor", &o.processor, err)) < 0 ||
			(code = ff_json_string(at, "kernels", &o.kernels, err)) < 0 ||
			(code = ff_json_string(at, "mpi", &o.mpi, err)) < 0 ||
			(code = read_count(at, "cores", &o.cores, err)) < 0 ||
			(code = read_count(at, "threads", &o.threads, err)) < 0 ||
			(code = read_count(at, "ranks", &o.ranks, err)) < 0 ||
			(code = read_count(at, "hosts", &o.hosts, err)) < 0 ||
			(code = read_device(at, &o, err)) < 0)
		return code;
	return ff_costs_set_origin(c, &o, err);
}

static int read_steadiness(struct ff_costs *c, const struct ff_json *at, struct ff_error *err)
{
	static const char *const keys[] = {"samples", "disturbed", "reference_spread", NULL};
	struct ff_steadiness s;
	int64_t samples, disturbed;
	int code;

	if ((code = ff_json_only(at, keys, err)) < 0 ||
			(code = ff_json_int(at, "samples", 1, (int64_t)FF_COST_MAX_BYTES, &samples,
					 err)) < 0 ||
			(code = ff_json_int(at, "disturbed", 0, samples, &disturbed, err)) < 0 ||
			(code = ff_json_real(at, "reference_spread", 1, FF_COST_MAX_US,
					 &s.reference_spread, err)) < 0)
		return code;
	s.samples = (uint64_t)samples;
	s.disturbed = (uint64_t)disturbed;
	ff_costs_set_steadiness(c, &s);
	return FF_OK;
}

static int read_launch(struct ff_costs *c, const struct ff_json *at, struct ff_error *err)
{
	static const char *const keys[] = {"host_us", "stream_us", "alone_us", NULL};
	struct ff_launches l;
	int code;

	if ((code = ff_json_only(at, keys, err)) < 0 ||
			(code = ff_json_real(at, "host_us", 0, FF_COST_MAX_US, &l.host_us, err)) <
					0 ||
			(code = ff_json_real(at, "stream_us", 0, FF_COST_MAX_US, &l.stream_us,
					 err)) < 0 ||
			(code = ff_json_real(at, "alone_us", 0, FF_COST_MAX_US, &l.alone_us, err)) <
					0)
		return code;
	ff_costs_set_launch(c, &l);
	return FF_OK;
}

static int read_members(struct ff_costs *c, const struct ff_json *root, struct ff_arena *scratch,
		struct ff_error *err)
{
	const struct ff_json *steadiness, *launch, *overlap, *rates, *link, *comm, *entries;
	int code = read_origin(c, root, err);

	if (code == FF_OK)
		code = optional(root, "steadiness", FF_JSON_OBJECT, &steadiness, err);
	if (code == FF_OK && steadiness)
		code = read_steadiness(c, steadiness, err);
	if (code == FF_OK)
		code = optional(root, "launch", FF_JSON_OBJECT, &launch, err);
	if (code == FF_OK && launch)
		code = read_launch(c, launch, err);
	if (code == FF_OK)
		code = optional(root, "overlap", FF_JSON_OBJECT, &overlap, err);
	if (code == FF_OK && overlap)
		code = ff_costs_read_overlap(c, overlap, err);
	if (code == FF_OK)
		code = optional(root, "rates", FF_JSON_OBJECT, &rates, err);
	if (code == FF_OK && rates)
		code = read_rates(c, rates, err);
	if (code == FF_OK)
		code = optional(root, "link", FF_JSON_OBJECT, &link, err);
	if (code == FF_OK && link)
		code = read_link(link, &c->link, err);
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

/* What the versions before did not say, so that nothing can be added to them. */
static int check_version(const struct ff_json *root, struct ff_error *err)
{
	static const char *const unsaid[FF_COSTS_VERSION] = {NULL, "what they were measured on",
			"what caches held", "what a device takes while its node's others wait",
			"reuse_bytes, which they called otherwise"};
	const struct ff_json *format, *version;

	if (root->type != FF_JSON_OBJECT)
		return ff_json_format(root, FF_COSTS_FORMAT, FF_COSTS_VERSION, err);
	format = ff_json_get(root, "format");
	version = ff_json_get(root, "version");
	for (uint32_t v = 1; v < FF_COSTS_VERSION; v++)
		if (format && format->type == FF_JSON_STRING &&
				!strcmp(format->text, FF_COSTS_FORMAT) && version &&
				version->type == FF_JSON_NUMBER && version->number == v)
			return ff_json_fail(version, err,
					"costs of version %u do not say %s: remove the file and "
					"measure again with ffprof GRAPH --machine M -o FILE",
					v, unsaid[v]);
	return ff_json_format(root, FF_COSTS_FORMAT, FF_COSTS_VERSION, err);
}

static int read_root(const char *path, struct ff_arena *scratch, struct ff_costs **ret,
		struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "device_kind", "machine",
			"steadiness", "launch", "overlap", "rates", "link", "comm", "entries",
			NULL};
	const struct ff_json *root;
	const char *kind;
	struct ff_costs *c = NULL;
	int code = ff_json_load(path, scratch, &root, err);

	if (code == FF_OK)
		code = check_version(root, err);
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
	int code;

	ff_arena_init(&scratch);
	code = read_root(path, &scratch, ret, err);
	ff_arena_finish(&scratch);
	return code;
}
