/* A report for people: one page of HTML that needs nothing else (docs/report.md).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_HTML_H
#define FF_HTML_H

#include "ff/trace.h"

struct ff_html {
	const char *title;                  /* "gpt2_xl on dgx-a100-40:8" */
	const struct ff_schedule *schedule; /* NULL: the report is about no plan */
	const struct ff_timeline *timeline; /* of it; the first is what memory and links are of */
	uint32_t n_timelines;
	const struct ff_out *report; /* JSON, as --report has it */
};

/* Writes the page, whole or not at all.  Devices whose timelines are equal are told once; where
 * there are more different ones than a page should hold, as many as it can. */
int ff_html_save(const struct ff_html *h, const char *path, struct ff_error *err);

#endif
