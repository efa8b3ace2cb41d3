/* Figures and splits as people read them.  SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdlib.h>
#include <string.h>

void ff_time_text(double us, char buf[FF_TEXT])
{
	if (us >= 1e6)
		snprintf(buf, FF_TEXT, "%.3f s", us / 1e6);
	else if (us >= 1e3)
		snprintf(buf, FF_TEXT, "%.3f ms", us / 1e3);
	else
		snprintf(buf, FF_TEXT, "%.1f us", us);
}

void ff_bytes_text(int64_t bytes, char buf[FF_TEXT])
{
	static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes / 1024;
	uint32_t u = 0;

	if (bytes < 1024) {
		snprintf(buf, FF_TEXT, "%lld B", (long long)bytes);
		return;
	}
	for (; v >= 1024 && u < 3; u++)
		v /= 1024;
	snprintf(buf, FF_TEXT, "%.1f %s", v, unit[u]);
}

void ff_split_text(const struct ff_node *n, const struct ff_config *c, char buf[FF_TEXT])
{
	size_t used = 0;

	snprintf(buf, FF_TEXT, "whole");
	for (uint32_t i = 0; i < n->n_dims && used < FF_TEXT; i++)
		if (c->degree[i] > 1)
			used += (size_t)snprintf(buf + used, FF_TEXT - used, "%s%s %u",
					used ? ", " : "", n->dim[i].name, c->degree[i]);
	if (c->replicas > 1 && used < FF_TEXT)
		snprintf(buf + used, FF_TEXT - used, "%s%u times", used ? ", " : "", c->replicas);
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

void ff_devices_text(const struct ff_node *node, const struct ff_config *c, char buf[FF_TEXT])
{
	uint16_t device[FF_MAX_DEVICES], sorted[FF_MAX_DEVICES];
	uint32_t n = c->n_parts, step, i;
	size_t used = 0;

	ff_config_devices(node, c, device);
	memcpy(sorted, device, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_number);
	step = n > 1 ? (uint32_t)(sorted[1] - sorted[0]) : 1;
	for (i = 1; i < n && (uint32_t)(sorted[i] - sorted[i - 1]) == step; i++)
		;
	if (i >= n && n > 2 && step > 1) {
		used = (size_t)snprintf(
				buf, FF_TEXT, "%u-%u step %u", sorted[0], sorted[n - 1], step);
	} else {
		for (uint32_t first = 0; first < n && used < FF_TEXT / 2; first = i) {
			for (i = first + 1; i < n && sorted[i] == sorted[i - 1] + 1; i++)
				;
			used += (size_t)snprintf(buf + used, FF_TEXT - used,
					i - first > 1 ? "%s%u-%u" : "%s%u", used ? "," : "",
					sorted[first], sorted[i - 1]);
		}
		if (used >= FF_TEXT / 2 && i < n)
			used += (size_t)snprintf(buf + used, FF_TEXT - used, ",...");
	}
	if (memcmp(sorted, device, n * sizeof(*sorted)) != 0)
		snprintf(buf + used, FF_TEXT - used, ", permuted");
}

void ff_operator_text(const struct ff_graph *g, const struct ff_strategy *s, uint32_t node,
		char buf[FF_TEXT])
{
	size_t used;

	ff_split_text(&g->nodes[node], &s->config[node], buf);
	used = strlen(buf);
	if (s->stage[node] && used < FF_TEXT)
		used += (size_t)snprintf(buf + used, FF_TEXT - used, ", stage %u", s->stage[node]);
	if (s->recompute[node] && used < FF_TEXT)
		snprintf(buf + used, FF_TEXT - used, ", again");
}

#define COLUMNS 80

void ff_text_wrap(const char *label, const char *text, FILE *to)
{
	int indent = (int)strlen(label), at = indent;

	fprintf(to, "%s", label);
	while (*text) {
		int n = (int)strcspn(text, " ");

		if (n > COLUMNS - indent) /* a name that fills more than a line is cut */
			n = COLUMNS - indent;
		if (at > indent && at + 1 + n > COLUMNS) {
			fprintf(to, "\n%*s", indent, "");
			at = indent;
		} else if (at > indent) {
			at += fprintf(to, " ");
		}
		at += fprintf(to, "%.*s", n, text);
		text += n;
		text += strspn(text, " ");
	}
	fprintf(to, "\n");
}
