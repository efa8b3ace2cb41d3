/* What a link gives, by TCP alone.  `probe` serves; `probe ADDRESS` measures the link to where it
 * does: "LATENCY_US ONE_WAY BOTH_WAYS", half the median time there and back of one byte, and
 * bits a second; with another word behind it the first alone.  SPDX-License-Identifier: Apache-2.0
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT 7
#define ROUNDS 200   /* there and back */
#define SEND_S 0.25  /* so long bytes are sent */
#define RETRIES 100  /* until the server is there */
#define BYTES 262144 /* of one write */

static char memory[BYTES];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct sockaddr_in address(const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (text && inet_pton(AF_INET, text, &a.sin_addr) != 1)
		fail(text);
	return a;
}

static void send_for_a_while(int fd)
{
	double end_s = now_s() + SEND_S;

	while (now_s() < end_s)
		if (write(fd, memory, sizeof(memory)) < 0)
			fail("probe: write");
	shutdown(fd, SHUT_WR);
}

/* Bits a second from the first bytes to the last. */
static double receive(int fd)
{
	double start_s = 0, bytes = 0;
	ssize_t n;

	while ((n = read(fd, memory, sizeof(memory))) > 0) {
		if (start_s > 0)
			bytes += (double)n;
		else
			start_s = now_s();
	}
	return 8 * bytes / (now_s() - start_s);
}

/* What a connection is for is its first byte: bounced, sent, or asked for. */
static void serve_one(int fd)
{
	double bits_per_s;
	char kind;

	if (read(fd, &kind, 1) != 1)
		return;
	if (kind == 'b')
		while (read(fd, &kind, 1) == 1 && write(fd, &kind, 1) == 1)
			;
	if (kind == 's') {
		bits_per_s = receive(fd);
		if (write(fd, &bits_per_s, sizeof(bits_per_s)) < 0)
			fail("probe: write");
	}
	if (kind == 'r')
		send_for_a_while(fd);
}

static void serve(void)
{
	struct sockaddr_in a = address(NULL);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 8))
		fail("probe: bind");
	for (;;) {
		int peer = accept(fd, NULL, NULL);

		setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (fork() == 0) {
			serve_one(peer);
			exit(0);
		}
		close(peer);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

static int reach(const char *host, char kind)
{
	struct sockaddr_in a = address(host);
	int one = 1;

	for (int i = 0; i < RETRIES; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (!connect(fd, (struct sockaddr *)&a, sizeof(a)) && write(fd, &kind, 1) == 1)
			return fd;
		close(fd);
		usleep(20000);
	}
	fail(host);
	return -1;
}

static int by_size(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) -
	       (*(const double *)a < *(const double *)b);
}

static double latency_us(const char *host)
{
	double us[ROUNDS];
	int fd = reach(host, 'b');
	char c = 'b';

	for (int i = 0; i < ROUNDS; i++) {
		double start_s = now_s();

		if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
			fail("probe: there and back");
		us[i] = (now_s() - start_s) * 1e6 / 2;
	}
	close(fd);
	qsort(us, ROUNDS, sizeof(*us), by_size);
	return us[ROUNDS / 2];
}

static double send_bits_per_s(const char *host)
{
	int fd = reach(host, 's');
	double bits_per_s;

	send_for_a_while(fd);
	if (read(fd, &bits_per_s, sizeof(bits_per_s)) != sizeof(bits_per_s))
		fail("probe: bits a second");
	close(fd);
	return bits_per_s;
}

/* The slower of both ways. */
static double both_bits_per_s(const char *host)
{
	int pipes[2], fd = reach(host, 'r');
	double sent, received;

	if (pipe(pipes))
		fail("probe: pipe");
	if (fork() == 0) {
		sent = send_bits_per_s(host);
		exit(write(pipes[1], &sent, sizeof(sent)) < 0);
	}
	received = receive(fd);
	if (read(pipes[0], &sent, sizeof(sent)) != sizeof(sent))
		fail("probe: both ways");
	return sent < received ? sent : received;
}

int main(int argc, char **argv)
{
	double us, one_way;

	if (argc < 2)
		serve();
	us = latency_us(argv[1]);
	if (argc > 2) {
		printf("%.0f\n", us);
		return 0;
	}
	one_way = send_bits_per_s(argv[1]);
	printf("%.0f %.0f %.0f\n", us, one_way, both_bits_per_s(argv[1]));
	return 0;
}
