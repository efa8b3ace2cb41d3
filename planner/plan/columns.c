/* Columns of text.  SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

#include <string.h>

#define MOST_COLUMNS 8
#define GAP 2

void ff_columns_print(const char *const *cell, uint32_t rows, uint32_t columns, FILE *to)
{
	int width[MOST_COLUMNS] = {0};

	for (uint32_t i = 0; i < rows * columns; i++) {
		int n = (int)strlen(cell[i]), *at = &width[i % columns];

		*at = n > *at ? n : *at;
	}
	for (uint32_t r = 0; r < rows; r++) {
		int pad = 0; /* before the next cell that has something */

		for (uint32_t k = 0; k < columns; k++) {
			const char *text = cell[r * columns + k];

			if (*text) {
				fprintf(to, "%*s%s", pad, "", text);
				pad = 0;
			}
			pad += width[k] - (int)strlen(text) + GAP;
		}
		fputc('\n', to);
	}
}
