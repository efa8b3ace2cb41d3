/* Nodes before they are a graph.  SPDX-License-Identifier: Apache-2.0 */
#include "draft.h"

#include <string.h>

#define PORT_NODE(port) ((port) & (FF_PORT(0, 1) - 1))

struct ff_draft_node {
	enum ff_op op;
	const char *name;
	const union ff_attrs *attrs;
	const uint32_t *in;
	uint32_t n_in;
	const char *params[FF_MAX_PARAMS];
	bool used;
	uint32_t made; /* the builder's */
};

static int grow(struct ff_import *im)
{
	uint32_t cap = im->cap_drafts ? 2 * im->cap_drafts : 64;
	struct ff_draft_node *more = ff_arena_array(im->arena, cap, sizeof(*more));

	if (!more)
		return FF_E_NOMEM;
	if (im->n_drafts)
		memcpy(more, im->draft, im->n_drafts * sizeof(*more));
	im->draft = more;
	im->cap_drafts = cap;
	return FF_OK;
}

static const void *copy(struct ff_import *im, const void *of, size_t size)
{
	void *to = ff_arena_alloc(im->arena, size ? size : 1);

	if (to && size)
		memcpy(to, of, size);
	return to;
}

uint32_t ff_draft_add(struct ff_import *im, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in,
		const char *const *params)
{
	struct ff_draft_node d = {.op = op, .name = name, .n_in = n_in};

	if (im->n_drafts == im->cap_drafts && grow(im) < 0)
		return FF_NONE;
	d.attrs = attrs ? copy(im, attrs, sizeof(*attrs)) : NULL;
	d.in = copy(im, in, n_in * sizeof(*in));
	if (!d.in || (attrs && !d.attrs))
		return FF_NONE;
	for (uint32_t k = 0; params && k < FF_MAX_PARAMS; k++)
		d.params[k] = params[k];
	im->draft[im->n_drafts] = d;
	return im->n_drafts++;
}

/* Weights of nodes that are none are not written. */
static int keep_claims(struct ff_import *im)
{
	struct ff_names used;
	uint32_t n = 0;

	ff_names_init(&used, im->arena);
	for (uint32_t i = 0; i < im->n_drafts; i++) {
		const struct ff_draft_node *d = &im->draft[i];

		if (!d->used)
			continue;
		if (ff_names_find(&used, d->name) == FF_NONE && ff_names_put(&used, d->name, i) < 0)
			return ff_fail_memory(im->err);
		for (uint32_t k = 0; k < FF_MAX_PARAMS; k++)
			if (d->params[k] && ff_names_find(&used, d->params[k]) == FF_NONE &&
					ff_names_put(&used, d->params[k], i) < 0)
				return ff_fail_memory(im->err);
	}
	for (uint32_t i = 0; i < im->n_claims; i++) {
		const struct ff_claim *c = &im->claim[i];

		if (ff_names_find(&used, c->node ? c->node : c->name) != FF_NONE)
			im->claim[n++] = *c;
	}
	im->n_claims = n;
	return FF_OK;
}

int ff_draft_build(struct ff_import *im)
{
	uint32_t in[FF_MAX_INPUTS];

	if (im->n_drafts)
		im->draft[im->n_drafts - 1].used = true;
	for (uint32_t i = im->n_drafts; i-- > 0;)
		for (uint32_t k = 0; k < im->draft[i].n_in && im->draft[i].used; k++)
			im->draft[PORT_NODE(im->draft[i].in[k])].used = true;
	for (uint32_t i = 0; i < im->n_drafts; i++) {
		struct ff_draft_node *d = &im->draft[i];

		if (!d->used)
			continue;
		for (uint32_t k = 0; k < d->n_in; k++) {
			uint32_t node = PORT_NODE(d->in[k]);

			in[k] = d->in[k] - node + im->draft[node].made;
		}
		d->made = ff_builder_add_tied(
				im->builder, d->op, d->name, d->attrs, in, d->n_in, d->params);
	}
	return keep_claims(im); /* what the builder refuses sticks in it */
}
