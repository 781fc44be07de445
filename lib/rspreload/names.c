/* SPDX-License-Identifier: MIT */
/*
 * names.c - the addresses of connections that go over a bridge (bridge.c): those that the rsocket has.  The two ports of the program's
 * end tell which it is, by whatever number, also in a child, and, by an environment variable, in what that executes: servers ask
 * there whom they serve, and whether they may.
 */
#include "pre.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define VARIABLE "RDMAD_BRIDGES"

struct known {
	struct known *next;
	in_port_t end, inner;
	struct in6_addr host; /* of inner; ::, any: nobody else can connect to that end */
	struct names n;
};

static struct known *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

in_port_t port_of(const struct sockaddr_storage *a) { return ((const struct sockaddr_in *)a)->sin_port; }

void name_local6(const struct conn *c, struct sockaddr_storage *a)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = port_of(a), .sin6_addr = in6addr_loopback };

	if (c->local6)
		memcpy(a, &in6, sizeof(in6));
}

/* (At the same place in both families.) */
bool port_any(const struct sockaddr *addr) { return !((const struct sockaddr_in *)(const void *)addr)->sin_port; }

/* A socket of IPv6 has no other addresses. */
void name_give(int domain, const struct sockaddr_storage *from, struct sockaddr *addr, socklen_t *len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = in->sin_port };
	const void *name = from;
	socklen_t n = from->ss_family == AF_INET ? sizeof(*in) : sizeof(in6);

	if (domain == AF_INET6 && from->ss_family == AF_INET) {
		in6.sin6_addr = peer_host((const struct sockaddr *)from);
		name = &in6;
		n = sizeof(in6);
	}
	if (!addr || !len)
		return;
	memcpy(addr, name, *len < n ? *len : n);
	*len = n;
}

/* As the kernel says. */
static bool ports(int fd, struct known *k)
{
	struct sockaddr_storage a[2];
	socklen_t len[2] = { sizeof(a[0]), sizeof(a[1]) };

	if (real()->getsockname(fd, (struct sockaddr *)&a[0], &len[0]) ||
	    real()->getpeername(fd, (struct sockaddr *)&a[1], &len[1]) ||
	    (a[0].ss_family != AF_INET && a[0].ss_family != AF_INET6))
		return false;
	k->end = port_of(&a[0]);
	k->inner = port_of(&a[1]);
	k->host = peer_host((const struct sockaddr *)&a[1]);
	return true;
}

static struct known *add(const struct known *k)
{
	struct known *new = malloc(sizeof(*new));

	if (!new)
		return NULL;
	*new = *k;
	pthread_mutex_lock(&lock);
	new->next = all;
	all = new;
	pthread_mutex_unlock(&lock);
	return new;
}

struct known *names_add(int end, const struct names *n)
{
	struct known k = { .n = *n };

	if (!ports(end, &k))
		return NULL;
	k.host = in6addr_any;
	return add(&k);
}

struct known *names_expect(const struct sockaddr_storage *listener, int inner, const struct names *n)
{
	struct known k = { .end = port_of(listener), .n = *n };
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	if (real()->getsockname(inner, (struct sockaddr *)&a, &len))
		return NULL;
	k.inner = port_of(&a);
	k.host = peer_host((const struct sockaddr *)&a);
	return add(&k);
}

void names_forget(struct known *k)
{
	struct known **p;

	if (!k)
		return;
	pthread_mutex_lock(&lock);
	for (p = &all; *p != k; p = &(*p)->next)
		;
	*p = k->next;
	pthread_mutex_unlock(&lock);
	free(k);
}

static bool is(const struct known *k, const struct known *want)
{
	return k->end == want->end && k->inner == want->inner &&
	       (IN6_IS_ADDR_UNSPECIFIED(&k->host) || IN6_ARE_ADDR_EQUAL(&k->host, &want->host));
}

bool names_of(int fd, struct names *n)
{
	struct known want, *k;

	if (!__atomic_load_n(&all, __ATOMIC_RELAXED) || !ports(fd, &want))
		return false;
	pthread_mutex_lock(&lock);
	for (k = all; k && !is(k, &want); k = k->next)
		;
	if (k)
		*n = k->n;
	pthread_mutex_unlock(&lock);
	return k;
}

void names_child(void) { pthread_mutex_init(&lock, NULL); }

/* ---- for what is executed ---------------------------------------------------------------------------------- */

static const void *bytes_of(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr
					: (const void *)&((const struct sockaddr_in *)a)->sin_addr;
}

void names_export(int end, const struct names *n)
{
	const char *before = getenv(VARIABLE);
	char self[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN], *text;
	struct known k;

	if (!ports(end, &k) || !inet_ntop(n->self.ss_family, bytes_of(&n->self), self, sizeof(self)) ||
	    !inet_ntop(n->peer.ss_family, bytes_of(&n->peer), peer, sizeof(peer)) ||
	    asprintf(&text, "%s%u,%u,%d,%s,%u,%s,%u;", before ? before : "", k.end, k.inner, n->domain, self,
		     port_of(&n->self), peer, port_of(&n->peer)) < 0)
		return;
	setenv(VARIABLE, text, 1);
	free(text);
}

static bool address(const char *text, unsigned port, struct sockaddr_storage *a)
{
	*a = (struct sockaddr_storage){ .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };
	((struct sockaddr_in *)a)->sin_port = (in_port_t)port;
	return inet_pton(a->ss_family, text, (void *)(uintptr_t)bytes_of(a)) == 1;
}

__attribute__((constructor)) static void names_import(void)
{
	const char *at = getenv(VARIABLE);

	for (; at && *at; at = strchr(at, ';'), at = at ? at + 1 : NULL) {
		char self[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
		unsigned end, inner, port[2];
		struct known k = { 0 };

		if (sscanf(at, "%u,%u,%d,%45[^,],%u,%45[^,],%u;", &end, &inner, &k.n.domain, self, &port[0], peer,
			   &port[1]) != 7 ||
		    !address(self, port[0], &k.n.self) || !address(peer, port[1], &k.n.peer))
			continue;
		k.end = (in_port_t)end;
		k.inner = (in_port_t)inner;
		add(&k);
	}
}
