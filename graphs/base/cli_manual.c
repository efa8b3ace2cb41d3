/* Manual pages from tables of options: man(7).  SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "cli_forms.h"

/* Text in roff: hyphens as they are typed, nothing that looks like a request. */
static void put(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if ((text[i] == '.' || text[i] == '\'') && (!i || text[i - 1] == '\n'))
			fputs("\\&", stdout);
		if (text[i] == '-' || text[i] == '\\')
			fputs(text[i] == '-' ? "\\-" : "\\e", stdout);
		else
			putchar(text[i]);
	}
}

static void put_text(const char *text)
{
	put(text, strlen(text));
}

static void put_usage(const struct ff_command *c)
{
	for (const char *line = c->usage; *line;) {
		size_t n = strcspn(line, "\n");

		printf("%s.B %s\n", line == c->usage ? "" : ".br\n", c->name);
		put(line, n);
		putchar('\n');
		line += n + (line[n] == '\n');
	}
}

static void put_option(const struct ff_option *o)
{
	printf(".TP\n\\fB");
	put_text(o->name);
	printf("\\fR");
	if (o->argument) {
		printf(" \\fI");
		put_text(o->argument);
		printf("\\fR");
	}
	putchar('\n');
	put_text(o->help ? o->help : "");
	putchar('\n');
}

void ff_cli_man(const struct ff_command *c)
{
	static const struct ff_option own[] = {
			{.name = "-h, --help", .help = "Show a short text."},
			{.name = "--version",
					.help = "Show the version and what it was built with."},
	};

	printf(".TH ");
	for (const char *l = c->name; *l; l++)
		putchar(toupper((unsigned char)*l));
	printf(" 1 \"\" \"ffsoap " FF_VERSION "\" \"ffsoap\"\n.SH NAME\n%s \\- ", c->name);
	put(c->summary, strcspn(c->summary, "."));
	printf("\n.SH SYNOPSIS\n");
	put_usage(c);
	printf(".SH DESCRIPTION\n");
	put_text(c->summary);
	printf("\n.SH OPTIONS\n");
	for (uint32_t i = 0; i < c->n_options; i++)
		put_option(&c->options[i]);
	put_option(&own[0]);
	put_option(&own[1]);
	if (c->details && *c->details) {
		printf(".SH NOTES\n.nf\n");
		put_text(c->details);
		printf("%s.fi\n", c->details[strlen(c->details) - 1] == '\n' ? "" : "\n");
	}
}
