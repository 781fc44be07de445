/* SPDX-License-Identifier: MIT */
/*
 * addrinfo.c - rdma_getaddrinfo(): names and services into addresses, by the C library.
 *
 *	hints			port space	QP type
 *	neither			TCP		RC
 *	port space TCP, IB	as said		RC
 *	port space UDP, IPOIB	as said		UD
 *	QP type UD		UDP		as said
 *	any other QP type	TCP		as said
 *
 * Addresses are IPv4 or IPv6.  A source address is only what hints has, or, for a passive endpoint, what the name
 * stands for: the daemon finds one when an id resolves its destination.
 */
#include "cma.h"

#include <netdb.h>

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	struct rdma_addrinfo *next;

	for (; res; res = next) {
		next = res->ai_next;
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
	}
}

static bool is_datagram(int ps) { return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB; }

/* Finds the kind of endpoint; false: the two do not go together. */
static bool kind_fill(struct rdma_addrinfo *r, const struct rdma_addrinfo *hints)
{
	int ps = hints ? hints->ai_port_space : 0, type = hints ? hints->ai_qp_type : 0;

	r->ai_port_space = ps ? ps : type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	r->ai_qp_type = type ? type : is_datagram(r->ai_port_space) ? IBV_QPT_UD : IBV_QPT_RC;
	if (is_datagram(r->ai_port_space))
		return r->ai_qp_type == IBV_QPT_UD;
	return r->ai_port_space == RDMA_PS_IB || r->ai_qp_type != IBV_QPT_UD;
}

static int addr_copy(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from, socklen_t len)
{
	*to = malloc(len);
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static int name_copy(char **to, const char *from)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : EAI_MEMORY;
}

/* One result of the C library.  hints may be NULL. */
static int one_fill(struct rdma_addrinfo *r, const struct addrinfo *ai, const struct rdma_addrinfo *hints)
{
	bool passive = hints && hints->ai_flags & RAI_PASSIVE;
	int err;

	r->ai_flags = hints ? hints->ai_flags : 0;
	r->ai_family = ai->ai_family;
	if (!kind_fill(r, hints))
		return EAI_SOCKTYPE;
	if (passive) {
		err = addr_copy(&r->ai_src_addr, &r->ai_src_len, ai->ai_addr, ai->ai_addrlen);
		return err ? err : name_copy(&r->ai_src_canonname, ai->ai_canonname);
	}
	err = addr_copy(&r->ai_dst_addr, &r->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
	if (!err)
		err = name_copy(&r->ai_dst_canonname, ai->ai_canonname);
	if (!err && hints && hints->ai_src_len && hints->ai_src_addr)
		err = addr_copy(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	return err;
}

static int list_fill(struct rdma_addrinfo **head, const struct addrinfo *ai, const struct rdma_addrinfo *hints)
{
	int err;

	for (; ai; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		*head = calloc(1, sizeof(**head));
		if (!*head)
			return EAI_MEMORY;
		err = one_fill(*head, ai, hints);
		if (err)
			return err;
		head = &(*head)->ai_next;
	}
	return 0;
}

static int from_names(const char *node, const char *service, const struct rdma_addrinfo *hints,
		      struct rdma_addrinfo **res)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found;
	int flags = hints ? hints->ai_flags : 0, err;

	if (flags & RAI_PASSIVE)
		want.ai_flags |= AI_PASSIVE;
	if (flags & RAI_NUMERICHOST)
		want.ai_flags |= AI_NUMERICHOST;
	if (hints && (hints->ai_family == AF_INET || hints->ai_family == AF_INET6)) /* with or without RAI_FAMILY */
		want.ai_family = hints->ai_family;
	if (hints && (is_datagram(hints->ai_port_space) || hints->ai_qp_type == IBV_QPT_UD))
		want.ai_socktype = SOCK_DGRAM;
	err = getaddrinfo(node, service, &want, &found);
	if (err)
		return err;
	err = list_fill(res, found, hints);
	freeaddrinfo(found);
	return !err && !*res ? EAI_FAMILY : err;
}

/* No name: the addresses of hints, one endpoint. */
static int from_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *r = *res = calloc(1, sizeof(*r));
	int err = 0;

	if (!r)
		return EAI_MEMORY;
	r->ai_flags = hints->ai_flags;
	r->ai_family = hints->ai_family;
	if (!kind_fill(r, hints))
		return EAI_SOCKTYPE;
	if (hints->ai_src_len && hints->ai_src_addr) {
		r->ai_family = hints->ai_src_addr->sa_family;
		err = addr_copy(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	}
	if (!err && hints->ai_dst_len && hints->ai_dst_addr) {
		r->ai_family = hints->ai_dst_addr->sa_family;
		err = addr_copy(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	}
	return err;
}

/* 0, an EAI_... code, or -1 and errno. */
EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo **res)
{
	const int dns = 1 << 5; /* RAI_DNS of newer headers: what is done here anyway */
	const int known = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY | dns;
	int err;

	*res = NULL;
	if (!node && !service && !hints)
		return fail(EINVAL);
	if (hints && hints->ai_flags & ~known)
		return EAI_BADFLAGS;
	if (hints && hints->ai_flags & RAI_FAMILY && hints->ai_family != AF_INET && hints->ai_family != AF_INET6 &&
	    hints->ai_family != AF_UNSPEC)
		return EAI_FAMILY;
	err = node || service ? from_names(node, service, hints, res) : from_hints(hints, res);
	if (err) {
		rdma_freeaddrinfo(*res);
		*res = NULL;
	}
	return err;
}
