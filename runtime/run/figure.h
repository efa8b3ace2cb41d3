/* A figure of ten columns at most, for people.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_FIGURE_H
#define FF_RUN_FIGURE_H

#include <stdio.h>

struct ff_figure_text {
	char text[32];
};

/* With so many decimals, or, where that is longer, as a power of ten: a loss that grows ends there.
 */
static inline struct ff_figure_text ff_figure_text(double v, int decimals)
{
	struct ff_figure_text r;

	if (snprintf(r.text, sizeof(r.text), "%.*f", decimals, v) > 10)
		snprintf(r.text, sizeof(r.text), "%.4g", v);
	return r;
}

#endif
