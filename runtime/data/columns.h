/* Samples that lie in files, an input's one behind the other: what formats of files come down to.
 * A format says where each input's samples are, this reads them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_COLUMNS_H
#define FF_DATA_COLUMNS_H

#include "element.h"
#include "source.h"
#include "store.h"

/* Samples in one file: sample i begins `at + i * stride` bytes behind the store's first. */
struct ff_column_part {
	const struct ff_store *store;
	int64_t at, stride, samples;
};

#define FF_COLUMN_PARTS 16
struct ff_column {
	enum ff_element element;
	/* pixels: bytes from 0 to 255 that are scaled to [0, 1] and then, by channel, to the
	 * training set's mean 0 and deviation 1 */
	bool pixels;
	uint32_t channels; /* the outermost of a sample's axes */
	uint32_t n_parts;
	struct ff_column_part part[FF_COLUMN_PARTS];
};

struct ff_columns;

/* What is behind the input `field` when training or testing. */
struct ff_column *ff_columns_of(struct ff_columns *c, bool train, uint32_t field);
/* The store is the columns' from here on, also where this fails. */
int ff_columns_keep(struct ff_columns *c, struct ff_store *store, struct ff_error *err);
/* Called last: every input has its column for training, and as many samples as the others:
 * FF_E_INPUT if not, or where an element is no class.  Columns of more than 256 MiB are looked at
 * only when they are read. */
int ff_columns_check(struct ff_columns *c, struct ff_error *err);
/* Creates them, has `add` put them in place and check them. */
int ff_columns_open(const struct ff_opening *o,
		int (*add)(struct ff_columns *c, const struct ff_opening *o, struct ff_error *err),
		struct ff_source **ret, struct ff_error *err);

#endif
