/* Dropout: zeroes elements with probability p, or whole samples (stochastic depth), and scales the
 * rest by 1 / (1 - p).  Backward draws the mask again, so it reads nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "p",
				.type = FF_ATTR_REAL,
				.offset = offsetof(union ff_attrs, dropout.p),
				.min = 0,
				.max = 1,
				.preset = 0.5},
		{.name = "per",
				.type = FF_ATTR_CHOICE,
				.offset = offsetof(union ff_attrs, dropout.per),
				.max = 1,
				.choices = "element|sample",
				.in_key = 1,
				.later = 1},
};

static int derive(struct ff_derive *d, struct ff_error *err)
{
	if (d->node->attrs.dropout.p >= 1)
		return ff_derive_fail(d, err, "\"p\" must be below 1, or nothing is left");
	return ff_derive_alike(d, 1, 1, err);
}

const struct ff_op_row ff_op_dropout = {
		.name = "dropout",
		.summary = "zeroes elements or samples at random while training",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
};
