/* Pins: what the user says of some operators' configs.  SPDX-License-Identifier: Apache-2.0 */
#include "pins.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/nearest.h"

#define NAME 64 /* bytes of a dim's name, at most */

/* One pin, read. */
struct pin {
	const char *text;
	char *pattern;
	char dim[FF_MAX_DIMS][NAME];
	uint16_t degree[FF_MAX_DIMS];
	uint32_t n, parts; /* parts: product of the degrees */
	uint16_t device[FF_MAX_DEVICES];
	uint32_t n_devices; /* 0: not said */
};

/* ---- reading ---- */

static int fail_form(const char *text, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT,
			"option --pin: expected PATTERN:dim=degree[,dim=degree...][@devices], such "
			"as block*:head=8@0-7, not \"%.200s\"",
			text);
}

/* A number up to `most` at *at, which goes on behind it; false: there is none. */
static bool read_number(const char **at, unsigned long most, uint32_t *ret)
{
	char *end;
	unsigned long n;

	if (**at < '0' || **at > '9')
		return false;
	n = strtoul(*at, &end, 10);
	*at = end;
	*ret = (uint32_t)n;
	return n <= most;
}

/* "dim=degree,dim=degree" */
static int read_degrees(struct pin *p, const char **at, struct ff_error *err)
{
	p->parts = 1;
	do {
		size_t length = strcspn(*at, "=,@");
		uint32_t degree;

		if (p->n == FF_MAX_DIMS || length == 0 || length >= NAME || (*at)[length] != '=')
			return fail_form(p->text, err);
		memcpy(p->dim[p->n], *at, length);
		*at += length + 1;
		if (!read_number(at, FF_MAX_DEVICES, &degree) || degree == 0)
			return fail_form(p->text, err);
		for (uint32_t i = 0; i < p->n; i++)
			if (!strcmp(p->dim[i], p->dim[p->n]))
				return ff_fail(err, FF_E_INPUT,
						"option --pin: \"%.200s\" says %s twice", p->text,
						p->dim[i]);
		p->degree[p->n++] = (uint16_t)degree;
		p->parts *= degree;
		if (p->parts > FF_MAX_DEVICES)
			p->parts = FF_MAX_DEVICES + 1;
	} while (*(*at)++ == ',');
	(*at)--;
	return FF_OK;
}

/* "0-7,16" */
static int read_devices(
		struct pin *p, const char *at, const struct ff_machine *m, struct ff_error *err)
{
	bool used[FF_MAX_DEVICES] = {false};

	do {
		uint32_t from, to;

		if (!read_number(&at, FF_MAX_DEVICES, &from))
			return fail_form(p->text, err);
		to = from;
		if (*at == '-' && (at++, !read_number(&at, FF_MAX_DEVICES, &to) || to < from))
			return fail_form(p->text, err);
		for (uint32_t i = from; i <= to; i++) {
			if (i >= m->n_devices || used[i])
				return ff_fail(err, FF_E_INPUT,
						"option --pin: \"%.200s\" names device %u%s, there "
						"are %u",
						p->text, i, i < m->n_devices ? " twice" : "",
						m->n_devices);
			used[i] = true;
			p->device[p->n_devices++] = (uint16_t)i;
		}
	} while (*at++ == ',');
	if (at[-1])
		return fail_form(p->text, err);
	if (p->n_devices != p->parts)
		return ff_fail(err, FF_E_INPUT,
				"option --pin: \"%.200s\" makes %u parts and names %u device%s: "
				"expected a device a part",
				p->text, p->parts, p->n_devices, p->n_devices == 1 ? "" : "s");
	return FF_OK;
}

static int read_pin(const char *text, const struct ff_machine *m, struct ff_arena *a,
		struct pin *ret, struct ff_error *err)
{
	const char *colon = strrchr(text, ':'), *at;
	int code;

	memset(ret, 0, sizeof(*ret));
	ret->text = text;
	ret->pattern = ff_arena_strdup(a, text);
	if (!ret->pattern)
		return ff_fail_memory(err);
	if (!colon || colon == text)
		return fail_form(text, err);
	ret->pattern[colon - text] = '\0';
	at = colon + 1;
	code = read_degrees(ret, &at, err);
	if (code == FF_OK && ret->parts > m->n_devices)
		code = ff_fail(err, FF_E_INPUT,
				"option --pin: \"%.200s\" makes %u parts or more, and there are %u "
				"devices",
				text, ret->parts, m->n_devices);
	if (code == FF_OK && *at == '@')
		return read_devices(ret, at + 1, m, err);
	return code == FF_OK && *at ? fail_form(text, err) : code;
}

/* ---- what is meant ---- */

static uint32_t find_dim(const struct ff_node *n, const char *name)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (!strcmp(n->dim[d].name, name))
			return d;
	return FF_NONE;
}

static bool has_dims(const struct ff_node *n, const struct pin *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (find_dim(n, p->dim[i]) == FF_NONE)
			return false;
	return true;
}

static int fail_name(const struct pin *p, const struct ff_graph *g, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, p->pattern);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i))
			ff_nearest_try(&near, g->nodes[i].name);
	return ff_fail(err, FF_E_INPUT,
			"option --pin: \"%.200s\": no operator matches the pattern%s", p->text,
			ff_nearest_hint(&near));
}

/* `first` is one that the pattern matches. */
static int fail_dims(const struct pin *p, const struct ff_node *first, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, p->dim[0]);
	for (uint32_t d = 0; d < first->n_dims; d++)
		ff_nearest_try(&near, first->dim[d].name);
	return ff_fail(err, FF_E_INPUT,
			"option --pin: \"%.200s\": %s, which matches, does not have these dims%s",
			p->text, first->name, ff_nearest_known(&near));
}

/* Parts in the order of `device`, as a view where they are evenly apart. */
static int fix(const struct ff_node *n, const struct pin *p, struct ff_arena *a, struct ff_pin *ret,
		struct ff_error *err)
{
	struct ff_config c = {.n_parts = p->parts, .replicas = 1, .start = p->device[0]};
	int32_t step = p->parts > 1 ? p->device[1] - p->device[0] : 1;
	uint32_t stride = (uint32_t)step;
	bool even = step > 0;

	for (uint32_t i = 1; i < p->parts; i++)
		even = even && p->device[i] - p->device[i - 1] == step;
	for (uint32_t d = FF_MAX_DIMS; d-- > 0; stride *= c.degree[d]) {
		c.degree[d] = d < n->n_dims && ret->degree[d] ? ret->degree[d] : 1;
		c.stride[d] = even && c.degree[d] > 1 ? (uint16_t)stride : 0;
	}
	if (!even)
		c.list = ff_arena_copy(a, p->device, p->parts, sizeof(*p->device));
	if (!even && !c.list)
		return ff_fail_memory(err);
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ret->degree[d] = c.degree[d];
	ret->fixed = c;
	return FF_OK;
}

/* `ret` has what other pins say of `n` already. */
static int pin_node(const struct ff_node *n, const struct pin *p, const struct ff_machine *m,
		struct ff_arena *a, struct ff_pin *ret, struct ff_error *err)
{
	uint32_t parts = 1;

	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t d = find_dim(n, p->dim[i]);

		if (p->degree[i] > n->dim[d].extent)
			return ff_fail(err, FF_E_INPUT,
					"option --pin: \"%.200s\": %s of operator %s is %d long, "
					"which makes no %u parts",
					p->text, p->dim[i], n->name, n->dim[d].extent,
					p->degree[i]);
		if (ret->fixed.n_parts || (ret->degree[d] && ret->degree[d] != p->degree[i]))
			return ff_fail(err, FF_E_INPUT,
					"option --pin: \"%.200s\": operator %s is pinned "
					"otherwise, too",
					p->text, n->name);
		ret->degree[d] = p->degree[i];
	}
	for (uint32_t d = 0; d < n->n_dims; d++)
		parts *= ret->degree[d] ? ret->degree[d] : 1u;
	if (parts > m->n_devices || (p->n_devices && parts != p->parts))
		return ff_fail(err, FF_E_INPUT,
				"option --pin: \"%.200s\": with others it makes %u parts of "
				"operator %s: expected at most %u",
				p->text, parts, n->name, p->n_devices ? p->parts : m->n_devices);
	return p->n_devices ? fix(n, p, a, ret, err) : FF_OK;
}

static int pin_nodes(const struct pin *p, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_arena *a, struct ff_pin **pins, struct ff_error *err)
{
	const struct ff_node *first = NULL;
	bool meant = false;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		const struct ff_node *n = &g->nodes[i];

		if (!ff_node_needs_config(g, i) || fnmatch(p->pattern, n->name, 0))
			continue;
		first = first ? first : n;
		if (!has_dims(n, p))
			continue;
		meant = true;
		if (!pins[i])
			pins[i] = ff_arena_alloc(a, sizeof(*pins[i]));
		code = pins[i] ? pin_node(n, p, m, a, pins[i], err) : ff_fail_memory(err);
	}
	if (code < 0 || meant)
		return code;
	return first ? fail_dims(p, first, err) : fail_name(p, g, err);
}

int ff_pins_parse(const char *const *text, uint32_t n, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, const struct ff_pin ***ret,
		struct ff_error *err)
{
	struct ff_pin **pins = ff_arena_array(a, g->n_nodes, sizeof(*pins));
	int code = pins ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		struct pin *p = ff_arena_alloc(a, sizeof(*p));

		code = p ? read_pin(text[i], m, a, p, err) : ff_fail_memory(err);
		if (code == FF_OK)
			code = pin_nodes(p, g, m, a, pins, err);
	}
	if (code == FF_OK)
		*ret = (const struct ff_pin **)pins;
	return code;
}
