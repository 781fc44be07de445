/* SPDX-License-Identifier: MIT */
/*
 * rs_opt.c - options, flags and names.
 *
 * Sizes are taken when the connection is made; later they cannot be changed.
 */
#include "rs.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>

enum { QUEUE_MAX = 8192, IOMAP_MAX = 127 * 256, BUF_MIN = 4096, BUF_MAX = 64 << 20, MAXSEG = 2048, KEEP_MAX = 1 << 20 };

/* An option that is a number: where it is kept. */
struct opt {
	int level, name;
	size_t at;
	int min, max; /* brought to these; max 0: as it is */
	bool fixed;   /* not once there is a QP */
};
#define OPT(level, name, field, ...)                                      \
	{                                                                 \
		level, name, offsetof(struct rs_opts, field), __VA_ARGS__ \
	}

static const struct opt opts[] = {
	OPT(SOL_SOCKET, SO_REUSEADDR, reuse, 0, 0, false),
	OPT(SOL_SOCKET, SO_KEEPALIVE, keepalive, 0, 0, false),
	OPT(SOL_SOCKET, SO_OOBINLINE, oobinline, 0, 0, false),
	OPT(SOL_SOCKET, SO_RCVBUF, rcvbuf, BUF_MIN, BUF_MAX, true),
	OPT(SOL_SOCKET, SO_SNDBUF, sndbuf, BUF_MIN, BUF_MAX, true),
	OPT(IPPROTO_TCP, TCP_NODELAY, nodelay, 0, 0, false),
	OPT(IPPROTO_TCP, TCP_KEEPIDLE, keep_idle, 1, KEEP_MAX, false),
	OPT(IPPROTO_TCP, TCP_KEEPINTVL, keep_intvl, 0, 0, false),
	OPT(IPPROTO_TCP, TCP_KEEPCNT, keep_cnt, 0, 0, false),
	OPT(IPPROTO_IPV6, IPV6_V6ONLY, v6only, 0, 0, false),
	OPT(SOL_RDMA, RDMA_SQSIZE, sq_size, 4, QUEUE_MAX, true),
	OPT(SOL_RDMA, RDMA_RQSIZE, rq_size, 4, QUEUE_MAX, true),
	OPT(SOL_RDMA, RDMA_INLINE, inline_max, 0, 0, true),
	OPT(SOL_RDMA, RDMA_IOMAPSIZE, iomap_n, 0, IOMAP_MAX, true),
};

static const struct opt *opt_find(int level, int name)
{
	for (size_t i = 0; i < ARRAY_N(opts); i++)
		if (opts[i].level == level && opts[i].name == name)
			return &opts[i];
	return NULL;
}

static int *opt_at(struct rsock *rs, const struct opt *o) { return (int *)(void *)((char *)&rs->opts + o->at); }

static int id_option(struct rsock *rs, int option, int on)
{
	return rdma_set_option(rs->id, RDMA_OPTION_ID, option, &on, sizeof(on)) ? errno : 0;
}

static int opt_set(struct rsock *rs, const struct opt *o, int v)
{
	int err = 0;

	if (o->fixed && (rs->linked || (rs->ds && ds_has_qp(rs))))
		return o->level == SOL_RDMA ? EINVAL : 0; /* buffers: a wish, as ever */
	if (v < 0)
		return EINVAL;
	v = v < o->min ? o->min : v;
	if (o->max && v > o->max)
		v = o->max;
	if (o->level == SOL_RDMA && o->name == RDMA_IOMAPSIZE) /* what the greeting can say */
		v = (int)rs_unscale(rs_scale((uint32_t)v + (v > 128 ? 255 : 0)));
	if (o->level == SOL_SOCKET && o->name == SO_REUSEADDR && rs->state == RS_NEW) /* later it is no error */
		err = id_option(rs, RDMA_OPTION_ID_REUSEADDR, v);
	if (o->level == IPPROTO_IPV6)
		err = id_option(rs, RDMA_OPTION_ID_AFONLY, v);
	if (err)
		return err;
	*opt_at(rs, o) = v;
	rs->opts.rcvbuf_set |= o->at == offsetof(struct rs_opts, rcvbuf);
	rs->opts.sndbuf_set |= o->at == offsetof(struct rs_opts, sndbuf);
	if (o->at == offsetof(struct rs_opts, keepalive) ||
	    (o->at == offsetof(struct rs_opts, keep_idle) && rs->opts.keepalive))
		rs_keep_update(rs);
	return 0;
}

EXPORT int rsetsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	const struct opt *o = opt_find(level, name);
	struct rsock *rs = rs_lock(fd);
	int err, v;

	if (!rs)
		return -1;
	if (rs->ds && !(o && o->fixed)) {
		err = setsockopt(fd, level, name, val, len) ? errno : 0;
	} else if (level == SOL_SOCKET && name == SO_LINGER) {
		err = len >= sizeof(rs->opts.linger) ? 0 : EINVAL;
		if (!err)
			memcpy(&rs->opts.linger, val, sizeof(rs->opts.linger));
	} else if (!o) {
		err = ENOPROTOOPT;
	} else if (len < sizeof(v)) {
		err = EINVAL;
	} else {
		memcpy(&v, val, sizeof(v));
		err = opt_set(rs, o, v);
	}
	rs_unlock_put(rs);
	return result(err);
}

/* Numbers that are not set. */
static int opt_state(struct rsock *rs, int level, int name, int *v)
{
	if (level == SOL_SOCKET && name == SO_ERROR) {
		if (rs->state != RS_LISTEN)
			rs_progress(rs);
		*v = rs->err;
		rs->err = 0;
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_TYPE)
		*v = SOCK_STREAM;
	else if (level == SOL_SOCKET && name == SO_DOMAIN)
		*v = rs->domain;
	else if (level == SOL_SOCKET && name == SO_PROTOCOL)
		*v = IPPROTO_TCP;
	else if (level == SOL_SOCKET && name == SO_ACCEPTCONN)
		*v = rs->state == RS_LISTEN;
	else if (level == IPPROTO_TCP && name == TCP_MAXSEG)
		*v = MAXSEG;
	else
		return ENOPROTOOPT;
	return 0;
}

static int opt_give(void *val, socklen_t *len, const void *from, socklen_t from_len)
{
	if (*len < from_len)
		return EINVAL;
	memcpy(val, from, from_len);
	*len = from_len;
	return 0;
}

EXPORT int rgetsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	const struct opt *o = opt_find(level, name);
	struct rsock *rs = rs_lock(fd);
	int err = 0, v = 0;

	if (!rs)
		return -1;
	if (rs->ds && !(o && o->fixed)) { /* what the library does not keep is the UDP socket's */
		err = getsockopt(fd, level, name, val, len) ? errno : 0;
	} else if (level == SOL_SOCKET && name == SO_LINGER) {
		err = opt_give(val, len, &rs->opts.linger, sizeof(rs->opts.linger));
	} else {
		if (o)
			v = *opt_at(rs, o);
		else
			err = opt_state(rs, level, name, &v);
		if (!err)
			err = opt_give(val, len, &v, sizeof(v));
	}
	rs_unlock_put(rs);
	return result(err);
}

EXPORT int rfcntl(int fd, int cmd, ...)
{
	struct rsock *rs = rs_lock(fd);
	va_list ap;
	long arg;
	int ret = 0;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (!rs)
		return -1;
	switch (cmd) {
	case F_GETFL: ret = O_RDWR | (rs->nonblock ? O_NONBLOCK : 0); break;
	case F_SETFL: rs->nonblock = arg & O_NONBLOCK; break;
	case F_GETFD:
	case F_SETFD: ret = fcntl(fd, cmd, (int)arg); break;
	default: ret = fail(ENOTSUP);
	}
	rs_unlock_put(rs);
	return ret;
}

/* ---- names ------------------------------------------------------------------------------- */

static int name_give(const struct sockaddr *from, struct sockaddr *addr, socklen_t *len)
{
	socklen_t n = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (!len || (!addr && *len))
		return EFAULT;
	if (addr) /* who asks for the length only, as librspreload.so does, has none */
		memcpy(addr, from, *len < n ? *len : n);
	*len = n;
	return 0;
}

EXPORT int rgetpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct rsock *rs = rs_lock(fd);
	int err;

	if (!rs)
		return -1;
	if (rs->beside_tcp && rs->linked)
		rs_events(rs);
	if (rs->ds)
		err = getpeername(fd, addr, len) ? errno : 0;
	else if (rs->beside_tcp && rs->state == RS_CLOSED && rs->spilt)
		err = ENOTCONN; /* as one of TCP that is reset */
	else
		err = rs->state < RS_ACCEPTING || rs->state == RS_FAILED ? ENOTCONN : 0;
	if (!err && !rs->ds)
		err = name_give(rdma_get_peer_addr(rs->id), addr, len);
	rs_unlock_put(rs);
	return result(err);
}

EXPORT int rgetsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct rsock *rs = rs_lock(fd);
	struct sockaddr_storage none = { 0 };
	const struct sockaddr *from;
	int err;

	if (!rs)
		return -1;
	from = rs->ds ? NULL : rdma_get_local_addr(rs->id);
	none.ss_family = (sa_family_t)rs->domain;
	if (rs->ds)
		err = getsockname(fd, addr, len) ? errno : 0;
	else
		err = name_give(from->sa_family ? from : (struct sockaddr *)&none, addr, len);
	rs_unlock_put(rs);
	return result(err);
}

/* (Another host's word is not taken.) */
EXPORT int rdmad_rs_local6(int fd)
{
	struct rsock *rs = rs_lock(fd);
	int is;

	if (!rs)
		return -1;
	is = rs->linked && rs->link.peer.local6 && addr_is_loopback(rdma_get_peer_addr(rs->id));
	rs_unlock_put(rs);
	return is;
}
