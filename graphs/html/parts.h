/* Parts of the page: each writes one member of its data.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_HTML_PARTS_H
#define FF_HTML_PARTS_H

#include "ff/html.h"

/* Devices that do and hold the same. */
struct ff_html_groups {
	struct ff_trace_groups same;
	uint32_t told; /* groups that the page has room for */
};

/* Memory from `a`, here and below. */
int ff_html_group(const struct ff_html *h, struct ff_arena *a, struct ff_html_groups *ret,
		struct ff_error *err);

int ff_html_write_layers(const struct ff_html *h, struct ff_arena *a, struct ff_out *o,
		struct ff_error *err);
int ff_html_write_timelines(const struct ff_html *h, const struct ff_html_groups *g,
		struct ff_arena *a, struct ff_out *o, struct ff_error *err);
int ff_html_write_memory(const struct ff_html *h, const struct ff_html_groups *g,
		struct ff_arena *a, struct ff_out *o, struct ff_error *err);
int ff_html_write_links(const struct ff_html *h, struct ff_arena *a, struct ff_out *o,
		struct ff_error *err);

/* The page with a mark where its data goes: report.html, embedded by embed.py. */
extern const char ff_html_text[];

#endif
