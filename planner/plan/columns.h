/* Columns of text.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_COLUMNS_H
#define FF_PLANNER_COLUMNS_H

#include <stdint.h>
#include <stdio.h>

/* `rows` times `columns` cells, row by row; each column as wide as its widest cell. */
void ff_columns_print(const char *const *cell, uint32_t rows, uint32_t columns, FILE *to);

#endif
