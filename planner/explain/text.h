/* Figures as people read them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_TEXT_H
#define FF_PLANNER_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "ff/graph.h"
#include "ff/strategy.h"

#define FF_TEXT 160

/* "4.031 ms". */
void ff_time_text(double us, char buf[FF_TEXT]);
/* "119.5 MiB". */
void ff_bytes_text(int64_t bytes, char buf[FF_TEXT]);
/* "whole", "sample 4, out_feature 2". */
void ff_split_text(const struct ff_node *n, const struct ff_config *c, char buf[FF_TEXT]);
/* "3", "0-7", "0-12 step 4", "0-3,8-11". */
void ff_devices_text(const struct ff_node *n, const struct ff_config *c, char buf[FF_TEXT]);
/* A split with its stage, and whether it is computed again: "sample 4, stage 2, again". */
void ff_operator_text(const struct ff_graph *g, const struct ff_strategy *s, uint32_t node,
		char buf[FF_TEXT]);

/* Prints `text` in lines of at most 80 columns, the first behind `label`, the others below. */
void ff_text_wrap(const char *label, const char *text, FILE *to);

#endif
