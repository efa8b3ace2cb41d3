/* Completion of command lines in shells, from tables of options.  SPDX-License-Identifier:
 * Apache-2.0
 */
#include <stdbool.h>
#include <string.h>

#include "cli_forms.h"

/* Whether a value may be a file: numbers are not. */
static bool takes_text(const struct ff_option *o)
{
	return o->type == FF_OPTION_TEXT || o->type == FF_OPTION_TEXTS;
}

/* Words that lines of usage begin with, other than names of operands: verbs.  False: no more. */
static bool next_verb(const char **line, const char **word, size_t *n)
{
	while (**line) {
		size_t length = strcspn(*line, "\n");

		*word = *line;
		*n = strspn(*line, "abcdefghijklmnopqrstuvwxyz");
		*line += length + ((*line)[length] == '\n');
		if (*n && ((*word)[*n] == ' ' || *n == length))
			return true;
	}
	return false;
}

static void put_words(const char *const *words, const char *before)
{
	for (; words && *words; words++) {
		printf("%s%s", before, *words);
		before = " ";
	}
}

static bool has_words(const struct ff_command *c)
{
	const char *line = c->usage, *word;
	size_t n;

	return c->words || next_verb(&line, &word, &n);
}

/* What operands may be called, beside files. */
static void put_operands(const struct ff_command *c)
{
	const char *line = c->usage, *word, *before = "";
	size_t n;

	while (next_verb(&line, &word, &n)) {
		printf("%s%.*s", before, (int)n, word);
		before = " ";
	}
	put_words(c->words, before);
}

/* Within single quotes: `special` gets a backslash, a quote becomes what the shell wants. */
static void put_quoted(const char *text, const char *special, const char *quote)
{
	for (; text && *text; text++) {
		if (*text == '\'') {
			fputs(quote, stdout);
			continue;
		}
		if (strchr(special, *text))
			putchar('\\');
		putchar(*text);
	}
}

/* ---- bash ---- */

/* Of what follows an option: names that it lists, files, or nothing that could be known. */
static void put_bash_value(const struct ff_command *c, const struct ff_option *o)
{
	if (o->type == FF_OPTION_FLAG)
		return;
	printf("\t%s)\n\t\t", o->name);
	if (o->list)
		printf("COMPREPLY=($(compgen -f -- \"$word\") $(compgen -W \"$(%s %s list "
		       "2>/dev/null | awk '{ print $1 }')\" -- \"$word\"))\n",
				c->name, o->name);
	else if (o->words) {
		printf("COMPREPLY=($(compgen -f -- \"$word\") $(compgen -W \"");
		put_words(o->words, "");
		printf("\" -- \"$word\"))\n");
	} else
		printf(takes_text(o) ? "COMPREPLY=($(compgen -f -- \"$word\"))\n"
				     : "COMPREPLY=()\n");
	printf("\t\treturn;;\n");
}

void ff_cli_bash(const struct ff_command *c)
{
	printf("# bash completion for %s %s\n_%s()\n{\n", c->name, FF_VERSION, c->name);
	printf("\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n");
	printf("\tcase $before in\n");
	for (uint32_t i = 0; i < c->n_options; i++)
		put_bash_value(c, &c->options[i]);
	printf("\tesac\n\tif [[ $word == -* ]]; then\n\t\tCOMPREPLY=($(compgen -W \"");
	for (uint32_t i = 0; i < c->n_options; i++)
		printf("%s ", c->options[i].name);
	printf("--help --version\" -- \"$word\"))\n\telse\n");
	printf("\t\tCOMPREPLY=($(compgen -W \"");
	put_operands(c);
	printf("\" -- \"$word\") $(compgen -f -- \"$word\"))\n\tfi\n}\n");
	printf("complete -o filenames -F _%s %s\n", c->name, c->name);
}

/* ---- zsh ---- */

static void put_zsh_value(const struct ff_command *c, const struct ff_option *o)
{
	printf(":");
	put_quoted(o->argument ? o->argument : "value", "[]:\\", "'\\''");
	printf(":");
	if (o->list) {
		printf("{ compadd ${${(f)\"$(%s %s list 2>/dev/null)\"}%%%% *}; _files }", c->name,
				o->name);
	} else if (o->words) {
		printf("{ compadd ");
		put_words(o->words, "");
		printf("; _files }");
	} else if (takes_text(o)) {
		printf("_files");
	}
}

void ff_cli_zsh(const struct ff_command *c)
{
	printf("#compdef %s\n_arguments \\\n", c->name);
	for (uint32_t i = 0; i < c->n_options; i++) {
		const struct ff_option *o = &c->options[i];
		bool longer = o->name[1] == '-', flag = o->type == FF_OPTION_FLAG;

		printf("\t'%s%s%s[", o->type == FF_OPTION_TEXTS ? "*" : "", o->name,
				flag     ? ""
				: longer ? "="
					 : "+");
		put_quoted(o->help, "[]:\\", "'\\''");
		printf("]");
		if (!flag)
			put_zsh_value(c, o);
		printf("' \\\n");
	}
	printf("\t'--help[show a short text]' \\\n\t'--version[show the version]' \\\n\t'*:file:");
	if (has_words(c)) {
		printf("{ compadd ");
		put_operands(c);
		printf("; _files }'\n");
	} else {
		printf("_files'\n");
	}
}

/* ---- fish ---- */

void ff_cli_fish(const struct ff_command *c)
{
	printf("# fish completion for %s %s\n", c->name, FF_VERSION);
	for (uint32_t i = 0; i < c->n_options; i++) {
		const struct ff_option *o = &c->options[i];
		bool longer = o->name[1] == '-';

		printf("complete -c %s -%c %s", c->name, longer ? 'l' : 's',
				o->name + (longer ? 2 : 1));
		if (o->type != FF_OPTION_FLAG)
			printf(takes_text(o) ? " -r -F" : " -x");
		if (o->list)
			printf(" -a '(%s %s list 2>/dev/null | string match -r \"^\\S+\")'",
					c->name, o->name);
		if (o->words) {
			printf(" -a '");
			put_words(o->words, "");
			printf("'");
		}
		printf(" -d '");
		put_quoted(o->help, "\\", "\\'");
		printf("'\n");
	}
	printf("complete -c %s -l help -d 'show a short text'\n", c->name);
	printf("complete -c %s -l version -d 'show the version'\n", c->name);
	if (has_words(c)) {
		printf("complete -c %s -a '", c->name);
		put_operands(c);
		printf("'\n");
	}
}
