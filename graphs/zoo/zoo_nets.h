/* The networks of the zoo, one row each, for zoo.c's table.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPHS_ZOO_NETS_H
#define FF_GRAPHS_ZOO_NETS_H

#include "ff/zoo.h"

extern const struct ff_zoo_row ff_zoo_mlp, ff_zoo_lenet, ff_zoo_alexnet, ff_zoo_branchnet;

#endif
