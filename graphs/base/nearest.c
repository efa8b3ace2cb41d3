/* Nearest names: letters that are wrong, left out, too many, or two that changed places.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/nearest.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
			bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				       a[i - 2] == b[j - 1];

			now[j] = before[j - 1] + (a[i - 1] != b[j - 1]);
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

void ff_nearest_try(struct ff_nearest *n, const char *name)
{
	char cut[FF_NEAREST_LENGTH];
	uint32_t apart;

	snprintf(cut, sizeof(cut), "%s", name);
	apart = distance(n->word, cut);
	if (apart > 1 && begins(cut, n->word))
		apart = 1;
	if (apart >= n->apart)
		return;
	n->apart = apart;
	memcpy(n->name, cut, sizeof(cut));
}

void ff_nearest_try_folder(struct ff_nearest *n, const char *folder, const char *suffix)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		size_t length = strlen(entry->d_name), end = strlen(suffix);
		char name[FF_NEAREST_LENGTH];

		if (length <= end || entry->d_name[0] == '.' ||
				strcmp(entry->d_name + length - end, suffix) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(length - end), entry->d_name);
		ff_nearest_try(n, name);
	}
	closedir(dir);
}

const char *ff_nearest_hint(struct ff_nearest *n)
{
	n->hint[0] = '\0';
	if (n->name[0])
		snprintf(n->hint, sizeof(n->hint), "; did you mean %s?", n->name);
	return n->hint;
}
