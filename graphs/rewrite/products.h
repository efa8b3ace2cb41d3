/* Products that read one value become one product.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REWRITE_PRODUCTS_H
#define FF_REWRITE_PRODUCTS_H

#include "ff/builder.h"

/* What is being rewritten. */
struct ff_rewriting {
	const struct ff_graph *g;
	struct ff_builder *b;
	struct ff_arena *a;
	uint32_t *made; /* by value of `g`: FF_PORT in what is built */
};

/* Whether node `i` may be merged with others at all; and with an earlier one. */
bool ff_product_merges(const struct ff_graph *g, uint32_t i);
bool ff_products_alike(const struct ff_graph *g, uint32_t i, uint32_t k);
/* Puts one product, called `merged`, in the place of n, and its parts behind it. */
int ff_products_merge(struct ff_rewriting *r, const char *merged, const uint32_t *node, uint32_t n);

#endif
