/* Tests of command lines.  SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/cli.h"
#include "ff_libraries.h"

static struct ff_error err;
static struct {
	bool flag;
	const char *out;
	struct ff_texts set;
	uint64_t count;
	double real, seconds;
	int64_t bytes;
} v;
static const char *args[2];
static uint32_t n_args;
static bool done;

static const struct ff_option options[] = {
		{"--compare", FF_OPTION_FLAG, &v.flag, NULL, "Compare with data parallelism."},
		{"-o", FF_OPTION_TEXT, &v.out, "FILE", "Write to FILE."},
		{"--set", FF_OPTION_TEXTS, &v.set, "KEY=VALUE",
				"Set a parameter; may be repeated."},
		{"--proposals", FF_OPTION_COUNT, &v.count, "N", "Stop after N proposals."},
		{"--rate", FF_OPTION_REAL, &v.real, "X",
				"A text that is so long that it has to be wrapped at least once, "
				"because no terminal of eighty columns would hold it on one line."},
		{"--budget", FF_OPTION_SECONDS, &v.seconds, "SECONDS", "Stop after SECONDS."},
		{"--memory", FF_OPTION_BYTES, &v.bytes, "BYTES", "Memory of a device."},
		{"--an-option-far-too-long-for-its-column", FF_OPTION_TEXT, &v.out, "FILE",
				"Long."},
};
static const struct ff_command command = {
		.name = "fftest",
		.usage = "GRAPH [COSTS] [-o FILE]\n--list",
		.summary = "Tests things.",
		.details = "Example:\n  fftest g.json",
		.options = options,
		.n_options = sizeof(options) / sizeof(*options),
		.min_args = 1,
		.max_args = 2,
};

static void setup(void)
{
	memset(&v, 0, sizeof(v));
	err = (struct ff_error){0};
	args[0] = args[1] = NULL;
	n_args = 99;
	done = true;
}

/* Words parted by one blank each. */
static int parse(const char *line)
{
	static char copy[2048];
	static char *argv[128];
	int argc = 0;

	argv[argc++] = (char *)"fftest";
	strcpy(copy, line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = strcmp(word, "''") ? word : word + 2; /* as a shell has it */
	argv[argc] = NULL;
	return ff_cli_parse(&command, argc, argv, args, &n_args, &done, &err);
}

static void takes(const char *line)
{
	ck_assert_msg(parse(line) == FF_OK, "%s: %s", line, err.text);
	ck_assert(!done);
}

static void refuses(const char *line, const char *sentence)
{
	setup();
	v.bytes = 42;
	ck_assert_msg(parse(line) == FF_E_INPUT, "%s: taken", line);
	ck_assert_str_eq(err.text, sentence);
	ck_assert_int_eq(v.bytes, 42);
	ck_assert(!v.flag);
	ck_assert_uint_eq(n_args, 99);
	ck_assert_ptr_null(args[0]);
	ck_assert(done);
}

START_TEST(every_type)
{
	takes("--compare g.json -o - --set a=1 --set=b=2 --proposals 18446744073709551615 --rate "
	      "-2.5e-1 "
	      "--budget 1.5m --memory=16GiB costs.json");
	ck_assert(v.flag);
	ck_assert_str_eq(v.out, "-");
	ck_assert_uint_eq(v.set.n, 2);
	ck_assert_str_eq(v.set.text[0], "a=1");
	ck_assert_str_eq(v.set.text[1], "b=2");
	ck_assert_uint_eq(v.count, UINT64_MAX);
	ck_assert(v.real == -0.25);
	ck_assert(v.seconds == 90);
	ck_assert_int_eq(v.bytes, INT64_C(16) << 30);
	ck_assert_uint_eq(n_args, 2);
	ck_assert_str_eq(args[0], "g.json");
	ck_assert_str_eq(args[1], "costs.json");
}
END_TEST

START_TEST(operands)
{
	takes("-");
	ck_assert_uint_eq(n_args, 1);
	ck_assert_str_eq(args[0], "-");
	takes("-- --compare -x");
	ck_assert_str_eq(args[0], "--compare");
	ck_assert_str_eq(args[1], "-x");
	ck_assert(!v.flag);
	refuses("", "expected at least 1 operand, not 0; see fftest --help");
	refuses("--compare --memory 1 -- a b c",
			"expected at most 2 operands, not 3; see fftest --help");
}
END_TEST

START_TEST(later_wins)
{
	takes("g -o a -o b --rate=1 --rate 2");
	ck_assert_str_eq(v.out, "b");
	ck_assert(v.real == 2);
}
END_TEST

START_TEST(bytes)
{
	static const struct {
		const char *text;
		int64_t n;
	} good[] = {{"0", 0}, {"1000000", 1000000}, {"7B", 7}, {"512M", 512 << 20},
			{"512MiB", 512 << 20}, {"512MB", 512000000}, {"1K", 1024}, {"1KB", 1000},
			{"2T", INT64_C(2) << 40}, {"1.5G", INT64_C(3) << 29}, {"0.5KiB", 512},
			{"9223372036854775807", INT64_MAX}};
	static const char *const bad[] = {"", "M", "-1", "+1", "1m", "1Mi", "1MBB", "1.", ".5",
			"0x10", "1e6", "1P", "nan"};
	char line[64];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		snprintf(line, sizeof(line), "g --memory=%s", good[i].text);
		takes(line);
		ck_assert_int_eq(v.bytes, good[i].n);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char sentence[128];

		snprintf(line, sizeof(line), "--memory=%s g", bad[i]);
		snprintf(sentence, sizeof(sentence),
				"option --memory: expected a size such as 1000000, 512M or 16GiB, "
				"not \"%s\"",
				bad[i]);
		refuses(line, sentence);
	}
	refuses("g --memory 9223372036854775808", "option --memory: expected a size below 8 EiB, "
						  "not \"9223372036854775808\"");
	refuses("g --memory 8388608T",
			"option --memory: expected a size below 8 EiB, not \"8388608T\"");
	refuses("g --memory 99999999T",
			"option --memory: expected a size below 8 EiB, not \"99999999T\"");
	refuses("g --memory 18446744073709551616",
			"option --memory: expected a size such as 1000000, "
			"512M or 16GiB, not \"18446744073709551616\"");
}
END_TEST

START_TEST(seconds)
{
	static const struct {
		const char *text;
		double s;
	} good[] = {{"30", 30}, {"30s", 30}, {"5m", 300}, {"1h", 3600}, {"0.5", 0.5}, {"0", 0}};
	static const char *const bad[] = {"", "s", "-1", "1d", "1ms", "1.s", "1e3", "inf"};
	char line[64], sentence[128];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		snprintf(line, sizeof(line), "g --budget=%s", good[i].text);
		takes(line);
		ck_assert(v.seconds == good[i].s);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(line, sizeof(line), "g --budget=%s", bad[i]);
		snprintf(sentence, sizeof(sentence),
				"option --budget: expected a time such as 30, 30s, 5m or 1h, not "
				"\"%s\"",
				bad[i]);
		refuses(line, sentence);
	}
}
END_TEST

START_TEST(numbers)
{
	static const char *const counts[] = {"", "-1", "1.0", "1e3", "x", "18446744073709551616"};
	static const char *const reals[] = {"", "x", "1x", "inf", "nan", "0x1p3", "1e999", "--1"};
	char line[64], sentence[128];

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		snprintf(line, sizeof(line), "g --proposals=%s", counts[i]);
		snprintf(sentence, sizeof(sentence),
				"option --proposals: expected a whole number, at least 0, not "
				"\"%s\"",
				counts[i]);
		refuses(line, sentence);
	}
	for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++) {
		snprintf(line, sizeof(line), "g --rate=%s", reals[i]);
		snprintf(sentence, sizeof(sentence), "option --rate: expected a number, not \"%s\"",
				reals[i]);
		refuses(line, sentence);
	}
}
END_TEST

START_TEST(bad_options)
{
	refuses("g --bugdet 3", "unknown option \"--bugdet\"; did you mean --budget? fftest --help "
				"lists them");
	refuses("g --bugdet=3", "unknown option \"--bugdet\"; did you mean --budget? fftest --help "
				"lists them");
	refuses("g --memor 3", "unknown option \"--memor\"; did you mean --memory? fftest --help "
			       "lists them");
	refuses("g --nothing-like-it", "unknown option \"--nothing-like-it\"; fftest --help lists "
				       "them");
	refuses("g --help=page", "option --help: expected nothing, =man, =bash, =zsh or =fish "
				 "behind it, not \"=page\"");
	refuses("g --version=2", "option --version takes no value");
	refuses("g --hel=2", "unknown option \"--hel\"; fftest --help lists them");
	refuses("g -ofile", "unknown option \"-ofile\"; fftest --help lists them");
	refuses("--compare=yes g", "option --compare takes no value");
	refuses("--compare g -o", "option -o: expected FILE behind it");
	refuses("g --budget --compare", "option --budget: expected SECONDS behind it");
	refuses("g -o ''", "option -o: expected FILE behind it, not an empty word");
	refuses("g -o=", "option -o: expected FILE behind it, not an empty word");
	refuses("--compare '' h", "operand 1 is an empty word; see fftest --help");
	refuses("--memory 7 g --rate x", "option --rate: expected a number, not \"x\"");
}
END_TEST

START_TEST(repeated_too_often)
{
	char line[1024] = "g";

	for (int i = 0; i < 32; i++)
		strcat(line, i % 2 ? " --set a=1" : " --set=a=1");
	takes(line);
	ck_assert_uint_eq(v.set.n, 32);
	strcat(line, " --set b");
	refuses(line, "option --set: expected at most 32 times");
	ck_assert_uint_eq(v.set.n, 0);
}
END_TEST

/* What `line` prints on `fd` (1 or 2). */
static char *printed_by(const char *line, int code, int fd)
{
	static char text[4096];
	char path[] = "/tmp/ff-test-XXXXXX";
	int file = mkstemp(path), saved = dup(fd);
	ssize_t n;

	unlink(path);
	fflush(stdout);
	dup2(file, fd);
	if (line)
		code = parse(line);
	else
		code = ff_cli_end(&command, code, &err);
	fflush(stdout);
	dup2(saved, fd);
	close(saved);
	n = pread(file, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	close(file);
	if (line)
		ck_assert_msg(code == FF_OK, "%s", err.text);
	return text;
}

START_TEST(help_is_laid_out)
{
	ck_assert_str_eq(printed_by("--compare --help --nonsense", 0, 1),
			"Usage: fftest GRAPH [COSTS] [-o FILE]\n"
			"       fftest --list\n"
			"\n"
			"Tests things.\n"
			"\n"
			"Options:\n"
			"  --compare         Compare with data parallelism.\n"
			"  -o FILE           Write to FILE.\n"
			"  --set KEY=VALUE   Set a parameter; may be repeated.\n"
			"  --proposals N     Stop after N proposals.\n"
			"  --rate X          A text that is so long that it has to be wrapped at "
			"least\n"
			"                    once, because no terminal of eighty columns would "
			"hold it on\n"
			"                    one line.\n"
			"  --budget SECONDS  Stop after SECONDS.\n"
			"  --memory BYTES    Memory of a device.\n"
			"  --an-option-far-too-long-for-its-column FILE\n"
			"                    Long.\n"
			"  -h, --help        Show this text.\n"
			"  --version         Show the version and what it was built with.\n"
			"\n"
			"Example:\n"
			"  fftest g.json\n");
	ck_assert(done);
	ck_assert(!v.flag);
}
END_TEST

START_TEST(version)
{
	static const char has[] = "fftest " FF_VERSION "\nbuilt with " FF_LIBRARIES "\n";
	const char *text = printed_by("--version", 0, 1);

	ck_assert_ptr_nonnull(strstr(FF_LIBRARIES, "cJSON"));
	ck_assert_msg(!strncmp(text, has, sizeof(has) - 1), "%s", text);
	ck_assert_str_eq(text + sizeof(has) - 1, *FF_WITHOUT ? "without " FF_WITHOUT "\n" : "");
	ck_assert(done);
}
END_TEST

START_TEST(help_that_cannot_be_written)
{
	int full = open("/dev/full", O_WRONLY), saved = dup(1);
	int code;

	fflush(stdout);
	dup2(full, 1);
	code = parse("--help");
	dup2(saved, 1);
	clearerr(stdout);
	close(full);
	close(saved);
	ck_assert_int_eq(code, FF_E_IO);
}
END_TEST

START_TEST(end_prints_one_sentence)
{
	ff_fail(&err, FF_E_INPUT, "g.json: no");
	ck_assert_str_eq(printed_by(NULL, FF_E_INPUT, 2), "fftest: g.json: no\n");
	ck_assert_str_eq(printed_by(NULL, FF_OK, 2), "");
	ck_assert_int_eq(ff_cli_end(&command, FF_OK, NULL), 0);
}
END_TEST

START_TEST(progress_is_silent_without_a_terminal)
{
	struct ff_progress p;
	char path[] = "/tmp/ff-test-XXXXXX", c;
	int file = mkstemp(path), saved = dup(2);

	unlink(path);
	dup2(file, 2);
	ff_progress_start(&p);
	ff_progress_show(&p, 0.5, 1, "half");
	ff_progress_end(&p);
	dup2(saved, 2);
	close(saved);
	ck_assert(!p.on);
	ck_assert_int_eq(pread(file, &c, 1, 0), 0);
	close(file);
}
END_TEST

START_TEST(progress_rewrites_its_line)
{
	struct ff_progress p;
	char text[300];
	int master = posix_openpt(O_RDWR | O_NOCTTY), saved;
	int slave;
	static const char first[] = "\r\033[K 25 %, 30 s left: best 7\r\033[K";
	size_t n = 0, all = sizeof(first) - 1 + 79 + 4;
	struct pollfd ready = {.fd = master, .events = POLLIN};

	if (master < 0) {
		printf("# no pseudo-terminals here: not tested\n");
		return;
	}
	saved = dup(2);
	ck_assert_int_eq(grantpt(master) | unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	dup2(slave, 2);
	ff_progress_start(&p);
	ff_progress_show(&p, 0.25, 10, "best %d", 7);
	ff_progress_show(&p, 0.30, 10, "too soon");
	p.last -= 1;
	ff_progress_show(&p, 0, 11, "%0200d", 1); /* cut to the terminal's 80 columns */
	ff_progress_end(&p);
	dup2(saved, 2);
	close(saved);
	/* a terminal hands on what was written when it comes to it */
	while (n < all && poll(&ready, 1, 5000) == 1) {
		ssize_t got = read(master, text + n, sizeof(text) - 1 - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	close(slave);
	close(master);
	ck_assert(strncmp(text, first, sizeof(first) - 1) == 0);
	ck_assert_uint_eq(strspn(text + sizeof(first) - 1, "0"), 79);
	ck_assert_str_eq(text + sizeof(first) - 1 + 79, "\r\033[K");
}
END_TEST

START_TEST(clock_moves_forward)
{
	double start = ff_clock_us();

	usleep(2000);
	ck_assert(ff_clock_us() >= start + 2000);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("cli");
	TCase *c = tcase_create("cli");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_add_test(c, every_type);
	tcase_add_test(c, operands);
	tcase_add_test(c, later_wins);
	tcase_add_test(c, bytes);
	tcase_add_test(c, seconds);
	tcase_add_test(c, numbers);
	tcase_add_test(c, bad_options);
	tcase_add_test(c, repeated_too_often);
	tcase_add_test(c, help_is_laid_out);
	tcase_add_test(c, version);
	tcase_add_test(c, help_that_cannot_be_written);
	tcase_add_test(c, end_prints_one_sentence);
	tcase_add_test(c, progress_is_silent_without_a_terminal);
	tcase_add_test(c, progress_rewrites_its_line);
	tcase_add_test(c, clock_moves_forward);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
