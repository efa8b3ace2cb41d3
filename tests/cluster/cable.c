/* Cables between emulated hosts and their bridge that packets take some time to pass: what netem
 * does, for kernels that have none.  `cable N` makes TAP devices host0 and port0 and so on, the
 * ends of N cables, says so by a line on stdout, and from then on brings what enters one end to
 * the other.  Each line on stdin is a new delay, in nanoseconds; it ends when stdin does.
 *
 * Packets are as large as TCP makes them: TAP devices hand them over before they are cut for the
 * wire, with a header that says how (virtio's), and take them so.  How fast they come is tc's.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MOST 16              /* cables */
#define PACKET_BYTES 70000   /* 64 KiB and headers */
#define AT_ONCE 16           /* packets taken from one end before the others have a turn */
#define MOST_WAITING 20000   /* packets in one direction; more are lost, as in netem */
#define NS_PER_S 1000000000L /* nanoseconds */

struct packet {
	struct packet *next;
	int64_t due_ns;
	size_t size;
	unsigned char data[PACKET_BYTES];
};

/* One direction: what entered here leaves at `to`. */
struct end {
	int fd, to;
	struct packet *first, *last;
	uint32_t waiting;
};

struct cable {
	struct end end[2 * MOST];
	uint32_t n;
	int64_t delay_ns;
	struct packet *spare;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int open_tap(const char *name, uint32_t i)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s%u", name, i);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) ||
			ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)) {
		perror("cable: /dev/net/tun");
		exit(1);
	}
	return fd;
}

static struct packet *take_spare(struct cable *c)
{
	struct packet *p = c->spare;

	if (p)
		c->spare = p->next;
	return p ? p : malloc(sizeof(*p));
}

static void give_back(struct cable *c, struct packet *p)
{
	p->next = c->spare;
	c->spare = p;
}

static void enter(struct cable *c, struct end *e)
{
	int64_t due_ns = now_ns() + c->delay_ns;

	for (int i = 0; i < AT_ONCE; i++) {
		struct packet *p = take_spare(c);
		ssize_t size = p ? read(e->fd, p->data, sizeof(p->data)) : 0;

		if (!p)
			return;
		if (size <= 0 || e->waiting == MOST_WAITING) {
			give_back(c, p);
			if (size <= 0)
				return;
			continue;
		}
		p->size = (size_t)size;
		p->due_ns = due_ns;
		p->next = NULL;
		if (e->first)
			e->last->next = p;
		else
			e->first = p;
		e->last = p;
		e->waiting++;
	}
}

/* What is due leaves; what the other end does not take is lost, as on a wire. */
static void leave(struct cable *c, struct end *e)
{
	while (e->first && e->first->due_ns <= now_ns()) {
		struct packet *p = e->first;

		e->first = p->next;
		e->waiting--;
		if (write(e->to, p->data, p->size) < 0)
			p->size = 0;
		give_back(c, p);
	}
}

/* Until the next one is due; NULL: none is. */
static const struct timespec *next_due(const struct cable *c, struct timespec *t)
{
	int64_t due_ns = INT64_MAX, ns;

	for (uint32_t i = 0; i < c->n; i++)
		if (c->end[i].first && c->end[i].first->due_ns < due_ns)
			due_ns = c->end[i].first->due_ns;
	if (due_ns == INT64_MAX)
		return NULL;
	ns = due_ns - now_ns();
	ns = ns > 0 ? ns : 0;
	*t = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
	return t;
}

/* A line is a write of its own, much shorter than a pipe takes whole. */
static int read_delay(struct cable *c)
{
	char line[32] = "";
	ssize_t size = read(0, line, sizeof(line) - 1);

	c->delay_ns = strtoll(line, NULL, 10);
	return size > 0;
}

static void carry(struct cable *c)
{
	struct pollfd on[2 * MOST + 1] = {{.fd = 0, .events = POLLIN}};
	struct timespec t;

	for (uint32_t i = 0; i < c->n; i++)
		on[i + 1] = (struct pollfd){.fd = c->end[i].fd, .events = POLLIN};
	while (ppoll(on, c->n + 1, next_due(c, &t), NULL) >= 0) {
		if (on[0].revents && !read_delay(c))
			return;
		for (uint32_t i = 0; i < c->n; i++) {
			if (on[i + 1].revents & POLLIN)
				enter(c, &c->end[i]);
			leave(c, &c->end[i]);
		}
	}
}

int main(int argc, char **argv)
{
	static struct cable c;
	uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;

	for (uint32_t i = 0; i < n && i < MOST; i++) {
		int host = open_tap("host", i), port = open_tap("port", i);

		c.end[c.n++] = (struct end){.fd = host, .to = port};
		c.end[c.n++] = (struct end){.fd = port, .to = host};
	}
	puts("ready");
	fflush(stdout);
	carry(&c);
	return 0;
}
