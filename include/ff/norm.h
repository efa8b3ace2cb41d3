/* What a part of a layer, RMS or group norm has to do, as loops: for the kernels of every
 * backend.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_NORM_H
#define FF_NORM_H

#include "ff/strided.h"

struct ff_work;

/* Rows are normalised, each by itself, and have a pair of what is saved each, in their
 * order; a row's elements are its features.  Every element has a weight and a bias, which
 * others share.  In all loops `sink` steps through the data. */
struct ff_norm {
	struct ff_strided row;     /* source: parameters */
	struct ff_strided feature; /* source: parameters */
	/* the same elements once more, by parameters, in the order of those: all, and all that
	 * have one */
	struct ff_strided param; /* source: rows */
	struct ff_strided rest;  /* source: rows */
	int64_t rows, features, rests;
	int64_t first, own, params; /* parameters of which the part has elements; in all */
	int32_t weight, bias;       /* whether there are such */
	int32_t centred;            /* else means are taken to be 0 */
	float epsilon;
};

/* What a part of batch norm has, as it lies in memory: `outer` times the channels, each of
 * `inner` elements.  Every `group` of the outer ones have statistics of their own.  The part may
 * have only some of its first group and of its last: group number g begins at outer one
 * g * group - skip. */
struct ff_batch {
	int64_t outer, channels, inner;
	int64_t groups, group, skip;
	float epsilon, momentum;
};

void ff_batch_fill(const struct ff_work *w, struct ff_batch *ret);
void ff_norm_fill(const struct ff_work *w, struct ff_norm *ret);

#endif
