/* After how many nodes the same classes come again.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PERIOD_H
#define FF_SIMULATOR_PERIOD_H

#include <stdint.h>

/* Nodes of a layer, and in *at the first of those that have an equal one as many behind; 0: there
 * are no layers.  `class`: by node, of `n`. */
uint32_t ff_layer_period(const uint32_t *class, uint32_t n, uint32_t *at);

#endif
