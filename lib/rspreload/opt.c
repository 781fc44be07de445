/* SPDX-License-Identifier: MIT */
/* opt.c - options: the TCP socket keeps them all, the rsocket those that it knows. */
#include "pre.h"

#include <limits.h>
#include <sys/time.h>

static int ms_of(const void *val, socklen_t len)
{
	struct timeval t;

	if (len < sizeof(t))
		return 0;
	memcpy(&t, val, sizeof(t));
	return t.tv_sec >= INT_MAX / 1000 ? INT_MAX : (int)(t.tv_sec * 1000 + (t.tv_usec + 999) / 1000);
}

/* Locked.  One that is longer is none of an rsocket's. */
static void opt_keep(struct conn *c, int level, int name, const void *val, socklen_t len)
{
	unsigned i = 0;

	while (i < c->opts_n && (c->opts[i].level != level || c->opts[i].name != name))
		i++;
	if (len > OPT_LEN || i == OPTS)
		return;
	c->opts[i] = (struct opt){ .level = level, .name = name, .len = len };
	memcpy(c->opts[i].val, val, len);
	c->opts_n += i == c->opts_n;
}

static void opt_set(struct conn *c, int level, int name, const void *val, socklen_t len)
{
	bool have = conn_rfd(c) >= 0;

	if (conn_state(c) == CONN_OPEN || conn_state(c) == CONN_LISTEN) {
		pthread_mutex_lock(&c->lock); /* another thread may be connecting it */
		have = conn_rfd(c) >= 0;
		opt_keep(c, level, name, val, len);
		pthread_mutex_unlock(&c->lock);
	}
	if (have)
		rsetsockopt(conn_rfd(c), level, name, val, len);
}

EXPORT int setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct conn *c = conn_get(fd);
	int ret, err;

	if (c && level == SOL_SOCKET && name == SO_ZEROCOPY) { /* nobody would tell when the data are sent */
		conn_put(c);
		return fail(EOPNOTSUPP);
	}
	ret = real()->setsockopt(fd, level, name, val, len);
	err = errno;
	if (!c)
		return ret;
	if (!ret && level == SOL_SOCKET && name == SO_RCVTIMEO)
		c->recv_ms = ms_of(val, len);
	if (!ret && level == SOL_SOCKET && name == SO_SNDTIMEO)
		c->send_ms = ms_of(val, len);
	if (!ret)
		opt_set(c, level, name, val, len);
	conn_put(c);
	errno = err;
	return ret;
}

EXPORT int getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct conn *c = conn_get(fd);
	int ret;

	if (!c)
		return real()->getsockopt(fd, level, name, val, len);
	if (conn_state(c) == CONN_CONNECTING)
		conn_progress(fd, c);
	if (level == SOL_SOCKET && name == SO_ERROR && conn_state(c) == CONN_RDMA) {
		ret = rgetsockopt(conn_rfd(c), level, name, val, len);
	} else if (level == SOL_SOCKET && name == SO_ERROR && conn_state(c) == CONN_FAILED) {
		int err = conn_err_take(c);

		*len = *len < sizeof(err) ? *len : sizeof(err);
		memcpy(val, &err, *len);
		ret = 0;
	} else {
		ret = real()->getsockopt(fd, level, name, val, len);
	}
	conn_put(c);
	return ret;
}
