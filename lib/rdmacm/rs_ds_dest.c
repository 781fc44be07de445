/* SPDX-License-Identifier: MIT */
/*
 * rs_ds_dest.c - destinations of a datagram socket, and its UDP side.
 *
 * The thread of rs_svc.c reads the UDP socket: packets that name the QP of their sender, from which the way to it is
 * found, and data.
 */
#include "rs_ds.h"

#include <unistd.h>

#include <rdmad/gid.h>

enum { RESOLVE_MS = 2000, AGAIN_MS = 1000, WORK_MAX = 64 };

/* ---- where to --------------------------------------------------------------------------------------- */

static void port_set(union ds_addr *a, in_port_t port)
{
	if (a->sa.sa_family == AF_INET)
		a->in.sin_port = port;
	else
		a->in6.sin6_port = port;
}

/* The host's own address towards there: as the kernel has it. */
static int route_local(const union ds_addr *to, union ds_addr *local)
{
	in_port_t port = local->in.sin_port; /* at the same place in both */
	int fd = socket(to->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	socklen_t len = sizeof(*local);

	if (fd < 0)
		return errno;
	if (connect(fd, &to->sa, ds_addr_len(to)) || getsockname(fd, &local->sa, &len))
		err = errno;
	close(fd);
	port_set(local, port);
	return err;
}

static int local_find(struct rsock *rs, const union ds_addr *to, union ds_addr *local)
{
	socklen_t len = sizeof(*local);

	memset(local, 0, sizeof(*local));
	if (getsockname(rs->fd, &local->sa, &len))
		return errno;
	if (!local->in.sin_port) { /* the peer has to know where to answer */
		if (bind(rs->fd, &local->sa, ds_addr_len(local)) || getsockname(rs->fd, &local->sa, &len))
			return errno;
	}
	return ds_addr_any(local) ? route_local(to, local) : 0;
}

static struct ds_dest **bucket(struct ds *ds, const union ds_addr *a)
{
	uint32_t h = a->in.sin_port;

	if (a->sa.sa_family == AF_INET)
		h ^= a->in.sin_addr.s_addr;
	else
		h ^= a->in6.sin6_addr.s6_addr32[3] ^ a->in6.sin6_addr.s6_addr32[1];
	return &ds->dests[(h * 2654435761u >> 16) % DS_BUCKETS];
}

int ds_dest_get(struct rsock *rs, const union ds_addr *to, struct ds_dest **out)
{
	struct ds_dest **b = bucket(rs->ds, to), *d;
	union ds_addr local;
	struct ds_qp *qp;
	int err;

	for (d = *b; d && !ds_addr_same(&d->addr, to); d = d->next)
		;
	*out = d;
	if (d)
		return 0;
	err = local_find(rs, to, &local);
	if (!err)
		err = ds_qp_get(rs, &local, &qp);
	if (err)
		return err;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ENOMEM;
	d->addr = *to;
	d->qp = qp;
	d->next = *b;
	*b = d;
	*out = d;
	return 0;
}

void ds_dests_free(struct ds *ds)
{
	struct ds_dest *d;

	for (size_t i = 0; i < DS_BUCKETS; i++) {
		while ((d = ds->dests[i])) {
			ds->dests[i] = d->next;
			if (d->ah)
				ibv_destroy_ah(d->ah);
			free(d);
		}
	}
}

/* ---- by UDP ----------------------------------------------------------------------------------------- */

int ds_udp_send(struct rsock *rs, struct ds_dest *d, enum ds_udp_op op, const struct iovec *iov, size_t n, int flags)
{
	uint8_t hdr[DS_UDP_HDR_MAX];
	struct iovec *all = calloc(n + 1, sizeof(*all));
	struct msghdr m = {
		.msg_name = &d->addr, .msg_namelen = ds_addr_len(&d->addr), .msg_iov = all, .msg_iovlen = n + 1
	};
	int err = 0;

	if (!all)
		return ENOMEM;
	all[0].iov_base = hdr;
	all[0].iov_len = ds_udp_hdr_make(hdr, &d->qp->local, op, d->qp->id->qp->qp_num);
	for (size_t i = 0; i < n; i++)
		all[i + 1] = iov[i];
	if (sendmsg(rs->fd, &m, flags | MSG_NOSIGNAL) < 0)
		err = errno;
	free(all);
	return err;
}

/* Or it is lost, as datagrams are. */
static void queue(struct rsock *rs, const uint8_t *data, size_t len, const union ds_addr *from)
{
	struct ds *ds = rs->ds;
	struct ds_in *in;

	if (ds->udp_n == DS_UDP_QUEUE)
		return;
	in = calloc(1, sizeof(*in) + len);
	if (!in)
		return;
	memcpy(in + 1, data, len);
	in->data = (const uint8_t *)(in + 1);
	in->len = (uint32_t)len;
	in->from = *from;
	ds->udp_n++;
	ds_in_add(ds, in);
	rs_wake(rs);
}

static uint8_t gid_index(const struct ds_qp *qp, const union ibv_gid *gid)
{
	struct ibv_port_attr port;
	union ibv_gid g;

	if (ibv_query_port(qp->id->verbs, qp->id->port_num, &port))
		return 0;
	for (int i = 0; i < port.gid_tbl_len && i < 256; i++)
		if (!ibv_query_gid(qp->id->verbs, qp->id->port_num, i, &g) && gid_same(g.raw, gid->raw))
			return (uint8_t)i;
	return 0;
}

/* Not locked: it may take a while. */
static int way_find(const struct ds_qp *qp, const union ds_addr *to, struct ibv_ah_attr *attr)
{
	union ds_addr local = qp->local, dst = *to;
	struct rdma_cm_id *id;
	int err = 0;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP))
		return errno;
	port_set(&local, 0);
	if (rdma_resolve_addr(id, &local.sa, &dst.sa, RESOLVE_MS) || rdma_resolve_route(id, RESOLVE_MS))
		err = errno;
	else if (id->route.num_paths < 1)
		err = EHOSTUNREACH;
	if (!err) {
		const struct ibv_sa_path_rec *p = id->route.path_rec;

		*attr = (struct ibv_ah_attr){
			.is_global = 1,
			.grh = { .dgid = p->dgid,
				 .flow_label = be32toh(p->flow_label),
				 .hop_limit = p->hop_limit,
				 .traffic_class = p->traffic_class,
				 .sgid_index = gid_index(qp, &p->sgid) },
			.sl = p->sl,
			.port_num = id->port_num,
		};
	}
	rdma_destroy_id(id);
	return err;
}

/* Locked, but for while it looks for the way. */
static void dest_learn(struct rsock *rs, struct ds_dest *d, uint32_t qpn)
{
	struct ibv_ah_attr attr;
	int64_t now = rs_now_ms();
	int err;

	if (d->ah && d->qpn == qpn)
		return;
	if (d->tried && d->tried_at + AGAIN_MS > now && !d->ah)
		return;
	if (d->ah) /* the same host, another socket */
		ibv_destroy_ah(d->ah);
	d->ah = NULL;
	d->tried = true;
	d->tried_at = now;
	pthread_mutex_unlock(&rs->lock);
	err = way_find(d->qp, &d->addr, &attr);
	pthread_mutex_lock(&rs->lock);
	if (err || rs->state == RS_CLOSED)
		return;
	d->qpn = qpn;
	d->ah = ibv_create_ah(d->qp->id->pd, &attr);
	rs_wake(rs);
}

static void on_packet(struct rsock *rs, const uint8_t *p, size_t len, const union ds_addr *from)
{
	enum ds_udp_op op;
	struct ds_dest *d;
	uint32_t qpn;
	size_t hdr = ds_udp_hdr_parse(p, len, from->sa.sa_family, &op, &qpn);

	if (!hdr || rs->state == RS_CLOSED || ds_dest_get(rs, from, &d))
		return;
	if (op == DS_UDP_DATA) {
		ds_udp_send(rs, d, DS_UDP_CTL, NULL, 0, MSG_DONTWAIT);
		queue(rs, p + hdr, len - hdr, from);
	}
	dest_learn(rs, d, qpn);
}

void ds_udp_work(struct rsock *rs)
{
	uint8_t buf[DS_MSG_MAX];

	for (int i = 0; i < WORK_MAX; i++) {
		union ds_addr from = { 0 };
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(rs->fd, buf, sizeof(buf), MSG_DONTWAIT, &from.sa, &len);

		if (n < 0) /* EAGAIN; or what ICMP said of an earlier packet */
			return;
		pthread_mutex_lock(&rs->lock);
		on_packet(rs, buf, (size_t)n, &from);
		pthread_mutex_unlock(&rs->lock);
	}
}
