/* What overlapping costs.  SPDX-License-Identifier: Apache-2.0 */
#include "costs.h"

#include <math.h>

#define MOST 16.0

struct ff_overlap_cost ff_costs_overlap(const struct ff_costs *c)
{
	return c->overlap;
}

void ff_costs_set_overlap(struct ff_costs *c, struct ff_overlap_cost o)
{
	c->overlap = (struct ff_overlap_cost){fmin(o.inside, MOST), fmin(o.between, MOST),
			fmin(o.inside_longer, MOST), fmin(o.between_longer, MOST)};
}

static int read_share(const struct ff_json *at, const char *key, double *ret, struct ff_error *err)
{
	return ff_json_get(at, key) ? ff_json_real(at, key, 0, MOST, ret, err) : FF_OK;
}

int ff_costs_read_overlap(struct ff_costs *c, const struct ff_json *at, struct ff_error *err)
{
	static const char *const keys[] = {
			"inside", "between", "inside_longer", "between_longer", NULL};
	struct ff_overlap_cost o = {-1, -1, 0, 0};
	double *const to[] = {&o.inside, &o.between, &o.inside_longer, &o.between_longer};
	int code = ff_json_only(at, keys, err);

	for (int i = 0; keys[i] && code == FF_OK; i++)
		code = read_share(at, keys[i], to[i], err);
	if (code == FF_OK)
		c->overlap = o;
	return code;
}

void ff_costs_write_overlap(const struct ff_costs *c, struct ff_out *o)
{
	if (c->overlap.inside < 0 && c->overlap.between < 0)
		return;
	ff_out_object(o, "overlap");
	if (c->overlap.inside >= 0)
		ff_out_real(o, "inside", c->overlap.inside);
	if (c->overlap.between >= 0)
		ff_out_real(o, "between", c->overlap.between);
	if (c->overlap.inside_longer > 0)
		ff_out_real(o, "inside_longer", c->overlap.inside_longer);
	if (c->overlap.between_longer > 0)
		ff_out_real(o, "between_longer", c->overlap.between_longer);
	ff_out_close(o);
}
