/* Which dims of an operator are channels and which are places, and classes of its degree vectors:
 * by how finely the places, and how finely the channels, of what it writes are cut, into a power of
 * two or how many between two of them, and by whether several parts add up to it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_DIMS_H
#define FF_CHECK_DIMS_H

#include "ff/config.h"

/* The axes of an operand that `dim` moves along, a bit each. */
uint32_t ff_axes_of(const struct ff_operand *o, uint32_t dim);
/* Whether parts read together every element, however they are cut: no steps over some. */
bool ff_reads_all(const struct ff_node *n, const struct ff_operand *o);
/* The axis of channels among so many: of images the second, else the last. */
uint32_t ff_channel_axis(uint32_t rank);
/* The dims of an operator that are channels of what it writes, a bit each. */
uint32_t ff_channel_dims(const struct ff_node *n);
/* Likewise those that are places: all others that are not summed over, of a prelude also these. */
uint32_t ff_place_dims(const struct ff_node *n);
/* The node whose degrees `node` has: that behind a prelude, where both have the same dims; itself.
 */
uint32_t ff_degrees_of(const struct ff_graph *g, uint32_t node);
/* How many classes there are on so many devices. */
uint32_t ff_class_count(uint32_t n_devices);
/* The class of a config's degrees, below ff_class_count of as many devices as it has parts. */
uint32_t ff_class_of(const struct ff_node *n, const struct ff_config *c);

#endif
