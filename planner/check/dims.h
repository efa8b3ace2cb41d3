/* Which dims of an operator are channels and which are places, and classes of its degree vectors:
 * by how finely the places, and how finely the channels, of what it writes are cut, both to powers
 * of two, and by whether several parts add up to it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_DIMS_H
#define FF_CHECK_DIMS_H

#include "ff/config.h"

/* Axes of an operand that `dim` moves along. */
uint32_t ff_axes_of(const struct ff_operand *o, uint32_t dim);
/* Dims of an operator that are channels of what it writes: of images the second axis, else the
 * last. */
uint32_t ff_channel_axis(uint32_t rank);
uint32_t ff_channel_dims(const struct ff_node *n);
/* Those that are places: all but channels, be they written or summed over. */
uint32_t ff_place_dims(const struct ff_node *n);
uint32_t ff_class_count(uint32_t n_devices);
/* Below that count of as many devices as it has parts, or more. */
uint32_t ff_class_of(const struct ff_node *n, const struct ff_config *c);

#endif
