/* Command lines: options, help, progress, exit.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli_forms.h"
#include "ff/nearest.h"

#define HELP_WIDTH 80
#define HELP_COLUMN 30 /* option texts begin here at the latest */

/* ---- values ---- */

/* A decimal number without sign: digits and perhaps a fraction.  Returns what
 * stands behind it, or NULL. */
static const char *take_decimal(const char *text, uint64_t *whole, double *fraction)
{
	const char *c = text;
	uint64_t n = 0;
	double f = 0, unit = 1;

	for (; *c >= '0' && *c <= '9'; c++)
		if (__builtin_mul_overflow(n, 10, &n) ||
				__builtin_add_overflow(n, (uint64_t)(*c - '0'), &n))
			return NULL;
	if (c == text)
		return NULL;
	if (*c == '.') {
		const char *point = c++;

		for (; *c >= '0' && *c <= '9'; c++)
			f += (*c - '0') * (unit /= 10);
		if (c == point + 1)
			return NULL;
	}
	*whole = n;
	*fraction = f;
	return c;
}

static int bad_value(const struct ff_option *o, const char *text, const char *expected,
		struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT, "option %s: expected %s, not \"%s\"", o->name, expected,
			text);
}

static int read_count(
		const struct ff_option *o, const char *text, uint64_t *ret, struct ff_error *err)
{
	uint64_t n;
	double fraction;
	const char *end = take_decimal(text, &n, &fraction);

	if (!end || *end || strchr(text, '.'))
		return bad_value(o, text, "a whole number, at least 0", err);
	*ret = n;
	return FF_OK;
}

static int read_real(const struct ff_option *o, const char *text, double *ret, struct ff_error *err)
{
	char *end;
	double v = strtod(text, &end);

	/* strtod would take hexadecimal, "inf" and leading space too. */
	if (end == text || *end || text[strspn(text, "+-.0123456789eE")] || !isfinite(v))
		return bad_value(o, text, "a number", err);
	*ret = v;
	return FF_OK;
}

static int read_bytes(
		const struct ff_option *o, const char *text, int64_t *ret, struct ff_error *err)
{
	static const char *const form = "a size such as 1000000, 512M or 16GiB";
	static const char units[] = "KMGT";
	uint64_t whole;
	double fraction;
	const char *end = take_decimal(text, &whole, &fraction);
	uint64_t unit = 1;
	const char *letter;

	if (!end)
		return bad_value(o, text, form, err);
	letter = *end ? strchr(units, *end) : NULL;
	if (letter) {
		uint64_t base = strcmp(end + 1, "B") == 0 ? 1000 : 1024;

		for (const char *u = units; u <= letter; u++)
			unit *= base;
		end++;
	}
	if (*end && strcmp(end, "B") != 0 && !(letter && strcmp(end, "iB") == 0))
		return bad_value(o, text, form, err);
	if (__builtin_mul_overflow(whole, unit, &whole) ||
			__builtin_add_overflow(
					whole, (uint64_t)(fraction * (double)unit), &whole) ||
			whole > INT64_MAX)
		return bad_value(o, text, "a size below 8 EiB", err);
	*ret = (int64_t)whole;
	return FF_OK;
}

static int read_seconds(
		const struct ff_option *o, const char *text, double *ret, struct ff_error *err)
{
	uint64_t whole;
	double fraction, unit = 1;
	const char *end = take_decimal(text, &whole, &fraction);

	if (end && *end && !end[1] && strchr("smh", *end)) {
		unit = *end == 'm' ? 60 : *end == 'h' ? 3600 : 1;
		end++;
	}
	if (!end || *end)
		return bad_value(o, text, "a time such as 30, 30s, 5m or 1h", err);
	*ret = ((double)whole + fraction) * unit;
	return FF_OK;
}

/* ---- parsing ---- */

struct parse {
	const struct ff_command *c;
	int argc;
	char **argv;
	bool store; /* false: only check, and touch nothing */
	struct ff_error *err;
};

static const struct ff_option *find_option(const struct ff_command *c, const char *text, size_t n)
{
	for (uint32_t i = 0; i < c->n_options; i++)
		if (strncmp(c->options[i].name, text, n) == 0 && !c->options[i].name[n])
			return &c->options[i];
	return NULL;
}

/* `o` stands at argv[at]: how often does it stand there or before? */
static uint32_t count_uses(const struct parse *p, const struct ff_option *o, int at)
{
	uint32_t n = 0;

	for (int i = 1; i <= at; i++)
		n += find_option(p->c, p->argv[i], strcspn(p->argv[i], "=")) == o;
	return n;
}

static int add_text(const struct parse *p, const struct ff_option *o, int at, const char *text)
{
	struct ff_texts *t = o->value;
	const uint32_t room = sizeof(t->text) / sizeof(*t->text);

	if (p->store)
		t->text[t->n++] = text;
	else if (t->n + count_uses(p, o, at) > room)
		return ff_fail(p->err, FF_E_INPUT, "option %s: expected at most %u times", o->name,
				room);
	return FF_OK;
}

/* A word that is no number may be anything but empty: of a shell's variable that is not set, say.
 */
static int check_word(const struct parse *p, const struct ff_option *o, const char *text)
{
	if ((o->type != FF_OPTION_TEXT && o->type != FF_OPTION_TEXTS) || *text)
		return FF_OK;
	return ff_fail(p->err, FF_E_INPUT, "option %s: expected %s behind it, not an empty word",
			o->name, o->argument ? o->argument : "a value");
}

/* The value `text` of the option at argv[at]. */
static int read_value(const struct parse *p, const struct ff_option *o, int at, const char *text)
{
	union {
		uint64_t count;
		double real;
		int64_t bytes;
	} unused;
	void *to = p->store ? o->value : &unused;

	switch (o->type) {
	case FF_OPTION_FLAG:
		if (p->store)
			*(bool *)to = true;
		return FF_OK;
	case FF_OPTION_TEXT:
		if (p->store)
			*(const char **)to = text;
		return FF_OK;
	case FF_OPTION_TEXTS:
		return add_text(p, o, at, text);
	case FF_OPTION_COUNT:
		return read_count(o, text, to, p->err);
	case FF_OPTION_REAL:
		return read_real(o, text, to, p->err);
	case FF_OPTION_BYTES:
		return read_bytes(o, text, to, p->err);
	case FF_OPTION_SECONDS:
		return read_seconds(o, text, to, p->err);
	}
	return FF_OK;
}

static int unknown_option(const struct parse *p, const char *word, size_t n)
{
	struct ff_nearest near;
	char typed[FF_NEAREST_LENGTH];

	if (!strncmp(word, "--help=", n + 1))
		return ff_fail(p->err, FF_E_INPUT,
				"option --help: expected nothing, =man, =bash, =zsh or =fish "
				"behind it, not \"%.100s\"",
				word + n);
	if (!strncmp(word, "--version=", n + 1))
		return ff_fail(p->err, FF_E_INPUT, "option --version takes no value");
	snprintf(typed, sizeof(typed), "%.*s", (int)n, word);
	ff_nearest_init(&near, typed);
	for (uint32_t i = 0; i < p->c->n_options; i++)
		ff_nearest_try(&near, p->c->options[i].name);
	return ff_fail(p->err, FF_E_INPUT, "unknown option \"%s\"%s %s --help lists them", typed,
			near.name[0] ? ff_nearest_hint(&near) : ";", p->c->name);
}

/* The option at argv[*i], and its value; *i moves to the last word used. */
static int read_option(const struct parse *p, int *i)
{
	const int at = *i;
	const char *word = p->argv[at], *equals = strchr(word, '=');
	size_t n = equals ? (size_t)(equals - word) : strlen(word);
	const struct ff_option *o = find_option(p->c, word, n);
	const char *value = equals ? equals + 1 : NULL;

	if (!o)
		return unknown_option(p, word, n);
	if (o->type == FF_OPTION_FLAG && value)
		return ff_fail(p->err, FF_E_INPUT, "option %s takes no value", o->name);
	if (o->type != FF_OPTION_FLAG && !value) {
		if (at + 1 == p->argc || strncmp(p->argv[at + 1], "--", 2) == 0)
			return ff_fail(p->err, FF_E_INPUT, "option %s: expected %s behind it",
					o->name, o->argument ? o->argument : "a value");
		value = p->argv[++*i];
	}
	return check_word(p, o, value) < 0 ? FF_E_INPUT : read_value(p, o, at, value);
}

enum ending { ENDING_NONE, ENDING_HELP, ENDING_FORM, ENDING_VERSION, ENDING_LIST };

/* --help=FORM: for programs. */
static const struct form {
	const char *name;
	void (*print)(const struct ff_command *c);
} forms[] = {{"man", ff_cli_man}, {"bash", ff_cli_bash}, {"zsh", ff_cli_zsh},
		{"fish", ff_cli_fish}};

static const struct form *find_form(const char *word)
{
	static const char help[] = "--help=";

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		if (!strncmp(word, help, sizeof(help) - 1) &&
				!strcmp(word + sizeof(help) - 1, forms[i].name))
			return &forms[i];
	return NULL;
}

/* What the option at argv[i] lists when its value is the word for that; NULL: it is not. */
static const struct ff_option *find_list(const struct parse *p, int i)
{
	const char *word = p->argv[i], *equals = strchr(word, '=');
	size_t n = equals ? (size_t)(equals - word) : strlen(word);
	const struct ff_option *o = find_option(p->c, word, n);
	const char *value = equals ? equals + 1 : i + 1 < p->argc ? p->argv[i + 1] : "";

	return o && o->list && !strcmp(value, "list") ? o : NULL;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Walks all words: checks or stores the options, collects the operands. */
static int walk(const struct parse *p, const char **args, uint32_t *n_args, enum ending *ending,
		const struct ff_option **list, const struct form **form)
{
	bool options = true;
	uint32_t n = 0;

	*ending = ENDING_NONE;
	for (int i = 1; i < p->argc; i++) {
		const char *word = p->argv[i];

		if (options && strcmp(word, "--") == 0) {
			options = false;
		} else if (options && is_help(word)) {
			*ending = ENDING_HELP;
			return FF_OK;
		} else if (options && (*form = find_form(word))) {
			*ending = ENDING_FORM;
			return FF_OK;
		} else if (options && strcmp(word, "--version") == 0) {
			*ending = ENDING_VERSION;
			return FF_OK;
		} else if (options && (*list = find_list(p, i))) {
			*ending = ENDING_LIST;
			return FF_OK;
		} else if (options && word[0] == '-' && word[1]) {
			int code = read_option(p, &i);

			if (code < 0)
				return code;
		} else if (!*word) {
			return ff_fail(p->err, FF_E_INPUT,
					"operand %u is an empty word; see %s --help", n + 1,
					p->c->name);
		} else {
			if (n < p->c->max_args && p->store)
				args[n] = word;
			n++;
		}
	}
	*n_args = n;
	return FF_OK;
}

static int check_args(const struct ff_command *c, uint32_t n, struct ff_error *err)
{
	if (n >= c->min_args && n <= c->max_args)
		return FF_OK;
	if (c->min_args == c->max_args)
		return ff_fail(err, FF_E_INPUT, "expected %u operand%s, not %u; see %s --help",
				c->min_args, c->min_args == 1 ? "" : "s", n, c->name);
	if (n < c->min_args)
		return ff_fail(err, FF_E_INPUT,
				"expected at least %u operand%s, not %u; see %s --help",
				c->min_args, c->min_args == 1 ? "" : "s", n, c->name);
	return ff_fail(err, FF_E_INPUT, "expected at most %u operands, not %u; see %s --help",
			c->max_args, n, c->name);
}

/* ---- help ---- */

/* Words of `text` in the columns from `left`; the cursor stands at `at`. */
static void print_wrapped(const char *text, int left, int at)
{
	bool first = true;

	while (*(text += strspn(text, " \n"))) {
		int n = (int)strcspn(text, " \n");
		int gap;

		if (first ? at && at + 2 > left : at + 1 + n > HELP_WIDTH) {
			putchar('\n');
			at = 0;
			first = true;
		}
		gap = first ? left - at : 1;
		printf("%*s%.*s", gap, "", n, text);
		at += gap + n;
		text += n;
		first = false;
	}
	putchar('\n');
}

static int option_width(const struct ff_option *o)
{
	return 2 + (int)strlen(o->name) + (o->argument ? 1 + (int)strlen(o->argument) : 0);
}

static void print_option(const struct ff_option *o, int left)
{
	printf("  %s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
	print_wrapped(o->help ? o->help : "", left, option_width(o));
}

static void print_usage(const struct ff_command *c)
{
	const char *head = "Usage:";

	for (const char *line = c->usage; *line;) {
		int n = (int)strcspn(line, "\n");

		printf("%s %s %.*s\n", head, c->name, n, line);
		line += n + (line[n] == '\n');
		head = "      ";
	}
}

static int print_help(const struct ff_command *c)
{
	static const struct ff_option own[] = {
			{.name = "-h, --help", .help = "Show this text."},
			{.name = "--version",
					.help = "Show the version and what it was built with."},
	};
	int left = 0;

	for (uint32_t i = 0; i < c->n_options; i++) {
		int width = option_width(&c->options[i]) + 2;

		if (width <= HELP_COLUMN && width > left)
			left = width;
	}
	if (left < option_width(&own[1]) + 2)
		left = option_width(&own[1]) + 2;
	print_usage(c);
	putchar('\n');
	print_wrapped(c->summary, 0, 0);
	printf("\nOptions:\n");
	for (uint32_t i = 0; i < c->n_options; i++)
		print_option(&c->options[i], left);
	print_option(&own[0], left);
	print_option(&own[1], left);
	if (c->details && *c->details)
		printf("\n%s%s", c->details,
				c->details[strlen(c->details) - 1] == '\n' ? "" : "\n");
	return FF_OK;
}

/* What was printed is not done before it has arrived. */
static int flush_stdout(struct ff_error *err)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return FF_OK;
	return ff_fail(err, FF_E_IO, "standard output: cannot be written: %s",
			errno ? strerror(errno) : "an earlier part of it failed");
}

int ff_cli_parse(const struct ff_command *c, int argc, char **argv, const char **args,
		uint32_t *n_args, bool *done, struct ff_error *err)
{
	struct parse p = {.c = c, .argc = argc, .argv = argv, .err = err};
	const struct ff_option *list = NULL;
	const struct form *form = NULL;
	enum ending ending;
	uint32_t n = 0;
	int code = walk(&p, args, &n, &ending, &list, &form);

	if (code < 0)
		return code;
	if (ending != ENDING_NONE) {
		if (ending == ENDING_HELP)
			print_help(c);
		else if (ending == ENDING_FORM)
			form->print(c);
		else if (ending == ENDING_VERSION)
			ff_cli_print_version(c->name);
		else
			code = list->list(stdout, err);
		if (code == FF_OK)
			code = flush_stdout(err);
		if (code == FF_OK)
			*done = true;
		return code;
	}
	code = check_args(c, n, err);
	if (code < 0)
		return code;
	p.store = true;
	code = walk(&p, args, n_args, &ending, &list, &form);
	if (code == FF_OK)
		*done = false;
	return code;
}

int ff_cli_end(const struct ff_command *c, int code, const struct ff_error *err)
{
	struct ff_error lost;

	if (code >= 0 && flush_stdout(&lost) < 0) {
		code = lost.code;
		err = &lost;
	}
	if (code < 0)
		fprintf(stderr, "%s: %s\n", c->name, err && *err->text ? err->text : "failed");
	return ff_exit_status(code);
}

/* ---- progress ---- */

int ff_cli_switch(const char *name, bool *value, struct ff_error *err)
{
	const char *word = getenv(name);

	if (!word)
		return FF_OK;
	if (strcmp(word, "0") != 0 && strcmp(word, "1") != 0)
		return ff_fail(err, FF_E_INPUT, "%s=%.100s: expected 0 or 1", name, word);
	*value = !strcmp(word, "1");
	return FF_OK;
}

int ff_cli_count(
		const char *name, int64_t least, int64_t most, int64_t *value, struct ff_error *err)
{
	const char *word = getenv(name);
	char *end = NULL;
	long long n;

	if (!word)
		return FF_OK;
	errno = 0;
	n = strtoll(word, &end, 10);
	if (end == word || *end || errno || n < least || n > most)
		return ff_fail(err, FF_E_INPUT,
				"%s=%.100s: expected a number from %" PRId64 " to %" PRId64, name,
				word, least, most);
	*value = n;
	return FF_OK;
}

void ff_progress_start(struct ff_progress *p)
{
	*p = (struct ff_progress){.on = isatty(STDERR_FILENO) == 1, .last = -INFINITY};
}

static int terminal_width(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

void ff_progress_show(struct ff_progress *p, double done, double seconds, const char *fmt, ...)
{
	double now = ff_clock_us() * 1e-6;
	char text[256], eta[64] = "";
	va_list args;
	int room;

	if (!p->on || now - p->last < 0.1)
		return;
	p->last = now;
	p->shown = true;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (done > 0 && done <= 1)
		snprintf(eta, sizeof(eta), "%3.0f %%, %.0f s left: ", done * 100,
				seconds * (1 - done) / done);
	/* A line that wraps could not be rewritten. */
	room = terminal_width() - 1 - (int)strlen(eta);
	fprintf(stderr, "\r\033[K%s%.*s", eta, room > 0 ? room : 0, text);
	fflush(stderr);
}

void ff_progress_end(struct ff_progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}
