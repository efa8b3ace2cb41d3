/* Nearest names: letters that are wrong, left out, too many, or two that changed places.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/nearest.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Letters are the same in either case. */
static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Optimal string alignment: a row of the table for each letter of `a`, three of them kept
 * (https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance). */
static uint32_t distance(const char *a, const char *b)
{
	uint32_t row[3][FF_NEAREST_LENGTH], n = (uint32_t)strlen(a), m = (uint32_t)strlen(b);

	for (uint32_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (uint32_t i = 1; i <= n; i++) {
		uint32_t *now = row[i % 3], *before = row[(i + 2) % 3], *last = row[(i + 1) % 3];

		now[0] = i;
		for (uint32_t j = 1; j <= m; j++) {
			bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) &&
				       same(a[i - 2], b[j - 1]);

			now[j] = before[j - 1] + !same(a[i - 1], b[j - 1]);
			now[j] = least(now[j], least(before[j], now[j - 1]) + 1);
			if (swapped)
				now[j] = least(now[j], last[j - 2] + 1);
		}
	}
	return row[n % 3][m];
}

void ff_nearest_init(struct ff_nearest *n, const char *word)
{
	*n = (struct ff_nearest){.apart = 0};
	snprintf(n->word, sizeof(n->word), "%s", word);
	/* A third of the letters may be wrong: of two or less none is left to know it by. */
	n->apart = (uint32_t)strlen(n->word) / 3 + 1;
}

/* What was typed may be all that somebody remembers. */
static bool begins(const char *name, const char *word)
{
	size_t n = strlen(word);

	return n > 2 && !strncmp(name, word, n);
}

/* Whole names, and three dots for those that there is no room for. */
static void list(struct ff_nearest *n, const char *name)
{
	static const char more[] = ", ...";
	size_t used = strlen(n->known), room = sizeof(n->known) - sizeof(more);

	if (used >= sizeof(more) - 1 && !strcmp(n->known + used - (sizeof(more) - 1), more))
		return;
	if (used + strlen(name) + 2 < room)
		snprintf(n->known + used, sizeof(n->known) - used, "%s%s", used ? ", " : "", name);
	else
		snprintf(n->known + used, sizeof(n->known) - used, "%s", used ? more : "...");
}

void ff_nearest_try(struct ff_nearest *n, const char *name)
{
	char cut[FF_NEAREST_LENGTH];
	uint32_t apart;

	list(n, name);
	snprintf(cut, sizeof(cut), "%s", name);
	apart = distance(n->word, cut);
	if (apart > 1 && begins(cut, n->word))
		apart = 1;
	if (apart >= n->apart)
		return;
	n->apart = apart;
	memcpy(n->name, cut, sizeof(cut));
}

void ff_nearest_try_choices(struct ff_nearest *n, const char *choices)
{
	for (const char *at = choices; *at; at += *at == '|') {
		char name[FF_NEAREST_LENGTH];
		size_t length = strcspn(at, "|");

		snprintf(name, sizeof(name), "%.*s", (int)length, at);
		ff_nearest_try(n, name);
		at += length;
	}
}

void ff_nearest_try_folder(struct ff_nearest *n, const char *folder, const char *suffix)
{
	struct dirent **entry;
	int count = scandir(folder, &entry, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		const char *found = entry[i]->d_name;
		size_t length = strlen(found), end = strlen(suffix);
		char name[FF_NEAREST_LENGTH];

		if (length > end && found[0] != '.' && !strcmp(found + length - end, suffix)) {
			snprintf(name, sizeof(name), "%.*s", (int)(length - end), found);
			ff_nearest_try(n, name);
		}
		free(entry[i]);
	}
	if (count >= 0)
		free(entry);
}

const char *ff_nearest_hint(struct ff_nearest *n)
{
	n->hint[0] = '\0';
	if (n->name[0])
		snprintf(n->hint, sizeof(n->hint), "; did you mean %s?", n->name);
	return n->hint;
}

const char *ff_nearest_known(struct ff_nearest *n)
{
	if (n->known[0])
		snprintf(n->hint, sizeof(n->hint), ", only %s%s%s%s", n->known,
				n->name[0] ? "; did you mean " : "", n->name,
				n->name[0] ? "?" : "");
	else
		snprintf(n->hint, sizeof(n->hint), ", as there are none");
	return n->hint;
}
