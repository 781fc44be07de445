/* SPDX-License-Identifier: MIT */
/*
 * peers.c - whom a client does not ask for RDMA for a while, but connects to by TCP: hosts that did not answer, or with a server that
 * did not come to its listener, and servers whose connections are brief, as those of HTTP without keep-alive.  To make one by RDMA takes
 * about a millisecond, twenty times as long as by TCP.
 *
 * Where there is one to the same server that is in use, all are by RDMA: a program may rely on what it says by one connection being
 * heard before what it says by the next, as within a host by TCP.
 */
#include "pre.h"

enum {
	SLOTS = 64,
	SILENT_MS = 60000,
	LEFT_MS = 10000,
	BRIEF_TIMES = 4, /* it lived no longer than so many times as long as it took to be made, */
	BRIEF_SENDS = 4, /* and sent no more often than that; who has sent more is in use */
	BRIEF_N = 8,     /* so many in a row were brief */
	BRIEF_MS = 250,
};

struct slot {
	struct in6_addr addr;
	in_port_t port;
	unsigned brief, used;
	int64_t until; /* of now_ms() */
};

static struct slot silent[SLOTS], brief[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct in6_addr peer_host(const struct sockaddr *sa)
{
	struct in6_addr a = IN6ADDR_ANY_INIT;

	if (sa->sa_family == AF_INET6)
		return ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	a.s6_addr16[5] = 0xffff;
	a.s6_addr32[3] = ((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr;
	return a;
}

static struct slot *at(struct slot *t, const struct in6_addr *a, in_port_t port)
{
	uint32_t x = a->s6_addr32[3] ^ port;

	return &t[(x ^ x >> 16 ^ x >> 24 ^ x >> 8) % SLOTS];
}

static bool is(const struct slot *s, const struct in6_addr *a, in_port_t port)
{
	return s->port == port && IN6_ARE_ADDR_EQUAL(&s->addr, a);
}

static bool waits(struct slot *t, const struct in6_addr *a, in_port_t port)
{
	const struct slot *s = at(t, a, port);

	return is(s, a, port) && !s->used && s->until > now_ms();
}

bool peer_by_tcp(const struct sockaddr *sa)
{
	struct in6_addr a = peer_host(sa);
	bool by_tcp;

	pthread_mutex_lock(&lock);
	by_tcp = waits(silent, &a, 0) || waits(brief, &a, port_of((const struct sockaddr_storage *)(const void *)sa));
	pthread_mutex_unlock(&lock);
	return by_tcp;
}

void peer_silent(const struct sockaddr *sa, bool left)
{
	struct in6_addr a = peer_host(sa);

	pthread_mutex_lock(&lock);
	*at(silent, &a, 0) = (struct slot){ .addr = a, .until = now_ms() + (left ? LEFT_MS : SILENT_MS) };
	pthread_mutex_unlock(&lock);
}

/* Locked. */
static struct slot *server(const struct sockaddr_storage *sa)
{
	struct in6_addr a = peer_host((const struct sockaddr *)sa);
	struct slot *s = at(brief, &a, port_of(sa));

	if (!is(s, &a, port_of(sa)))
		*s = (struct slot){ .addr = a, .port = port_of(sa) };
	return s;
}

void peer_sent(const struct sockaddr_storage *sa, uint32_t sends)
{
	if (sends != BRIEF_SENDS + 1)
		return;
	pthread_mutex_lock(&lock);
	server(sa)->used++;
	pthread_mutex_unlock(&lock);
}

void peer_lived(const struct sockaddr_storage *sa, int64_t made_ns, int64_t lived_ns, uint32_t sends)
{
	struct slot *s;

	pthread_mutex_lock(&lock);
	s = server(sa);
	s->used -= s->used && sends > BRIEF_SENDS;
	s->brief = lived_ns > BRIEF_TIMES * made_ns || sends > BRIEF_SENDS ? 0 : s->brief + 1;
	if (s->brief >= BRIEF_N)
		s->until = now_ms() + BRIEF_MS;
	pthread_mutex_unlock(&lock);
}
