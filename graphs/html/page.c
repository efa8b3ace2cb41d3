/* The page: a text with data in it.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/file.h"
#include "parts.h"

static const char mark[] = "@DATA@";

static int write_plan(const struct ff_html *h, struct ff_out *o, struct ff_error *err)
{
	const struct ff_schedule *s = h->schedule;
	struct ff_html_groups groups;
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	code = ff_html_group(h, &a, &groups, err);
	ff_out_string(o, "graph", s->graph->name);
	ff_out_string(o, "machine", s->machine->name);
	ff_out_int(o, "devices", s->machine->n_devices);
	if (code == FF_OK)
		code = ff_html_write_layers(h, &a, o, err);
	if (code == FF_OK)
		code = ff_html_write_timelines(h, &groups, &a, o, err);
	if (code == FF_OK)
		code = ff_html_write_memory(h, &groups, &a, o, err);
	if (code == FF_OK)
		code = ff_html_write_links(h, &a, o, err);
	ff_arena_finish(&a);
	return code;
}

/* In a page no data may look like a tag, whatever names operators have; in JSON '<' stands in
 * strings alone. */
static void add_data(struct ff_out *page, const struct ff_out *data)
{
	size_t from = 0;

	for (size_t i = 0; i < data->len; i++) {
		if (data->text[i] != '<')
			continue;
		ff_out_printf(page, "%.*s\\u003c", (int)(i - from), data->text + from);
		from = i + 1;
	}
	ff_out_printf(page, "%.*s", (int)(data->len - from), data->text + from);
}

int ff_html_save(const struct ff_html *h, const char *path, struct ff_error *err)
{
	const char *at = strstr(ff_html_text, mark);
	struct ff_out page, plan;
	int code;

	ff_out_init(&page);
	ff_out_init(&plan);
	plan.flat = true;
	ff_out_object(&plan, NULL);
	ff_out_string(&plan, "title", h->title);
	ff_out_string(&plan, "version", FF_VERSION);
	code = at ? FF_OK
		  : ff_fail(err, FF_E_RUN, "internal error: the page has no place for data");
	if (code == FF_OK && h->schedule)
		code = write_plan(h, &plan, err);
	ff_out_close(&plan);
	if (code == FF_OK) {
		ff_out_printf(&page, "%.*s{\"plan\":", (int)(at - ff_html_text), ff_html_text);
		add_data(&page, &plan);
		ff_out_printf(&page, ",\"report\":");
		add_data(&page, h->report);
		ff_out_printf(&page, "}%s", at + sizeof(mark) - 1);
		page.failed = page.failed || plan.failed || h->report->failed;
		code = ff_out_save(&page, path, err);
	}
	ff_out_finish(&plan);
	ff_out_finish(&page);
	return code;
}
