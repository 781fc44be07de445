/* SPDX-License-Identifier: MIT */
/* rs_table.c - from descriptors to rsockets. */
#include "rs.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdmad/high.h>

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rsock **table;
static int table_n;
static pid_t self; /* a child's calls would move what its parent knows to be elsewhere */

/* A thread may fork while another one has the lock. */
static void fork_before(void) { pthread_mutex_lock(&table_lock); }
static void fork_after(void) { pthread_mutex_unlock(&table_lock); }

static void fork_child(void)
{
	self = getpid();
	fork_after();
}

__attribute__((constructor)) static void table_open(void)
{
	self = getpid();
	pthread_atfork(fork_before, fork_after, fork_child);
}

static const struct rs_opts opts_default = {
	.sq_size = 384,
	.rq_size = 384,
	.inline_max = 64,
	.rcvbuf = 128 << 10,
	.sndbuf = 256 << 10,
	.keep_idle = 7200,
	.keep_intvl = 75,
	.keep_cnt = 9,
};

static int stream_open(struct rsock *rs)
{
	rs->ch = rdma_create_event_channel();
	if (!rs->ch)
		return errno;
	if (rs->beside_tcp && (rs->ch->fd = fd_away(rs->ch->fd, true)) < 0)
		return errno;
	rs->fd = rs->ch->fd;
	fcntl(rs->fd, F_SETFL, fcntl(rs->fd, F_GETFL) | O_NONBLOCK);
	return 0;
}

struct rsock *rs_new(int domain, int type, bool beside_tcp)
{
	struct rsock *rs = calloc(1, sizeof(*rs));
	int err;

	if (!rs)
		return NULL;
	rs->refs = 1;
	rs->owner = getpid();
	rs->domain = domain;
	rs->opts = opts_default;
	pthread_mutex_init(&rs->lock, NULL);
	rs->svc.due = INT64_MAX;
	rs->fd = -1;
	rs->beside_tcp = beside_tcp;
	rs->kick = fd_away(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), beside_tcp);
	if (rs->kick < 0)
		err = errno;
	else
		err = type == SOCK_DGRAM ? ds_open(rs) : stream_open(rs);
	if (!err)
		return rs;
	rs_put(rs);
	errno = err;
	return NULL;
}

int rs_add(struct rsock *rs)
{
	int n = rs->fd + 64, err = 0;
	struct rsock **t;

	pthread_mutex_lock(&table_lock);
	if (rs->fd >= table_n) {
		t = realloc(table, (size_t)n * sizeof(*t));
		if (t) {
			memset(t + table_n, 0, (size_t)(n - table_n) * sizeof(*t));
			table = t;
			table_n = n;
		} else {
			err = ENOMEM;
		}
	}
	if (!err)
		table[rs->fd] = rs;
	pthread_mutex_unlock(&table_lock);
	return err;
}

struct rsock *rs_get(int fd)
{
	struct rsock *rs = NULL;
	int err = EBADF;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_n)
		rs = table[fd];
	if (rs && rs->owner != self) {
		rs = NULL;
		err = EIO;
	}
	if (rs)
		rs_hold(rs);
	pthread_mutex_unlock(&table_lock);
	if (!rs)
		errno = err;
	return rs;
}

struct rsock *rs_lock(int fd)
{
	struct rsock *rs = rs_get(fd);
	int cancel;

	if (!rs)
		return NULL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&rs->lock);
	rs->cancel = cancel;
	return rs;
}

void rs_put(struct rsock *rs)
{
	if (__atomic_sub_fetch(&rs->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (rs->ds)
		ds_free(rs);
	rs_link_close(rs);
	if (rs->id)
		rdma_destroy_id(rs->id);
	if (rs->ch)
		rdma_destroy_event_channel(rs->ch);
	if (rs->kick >= 0)
		close(rs->kick);
	pthread_mutex_destroy(&rs->lock);
	free(rs);
}

void rs_unlock_put(struct rsock *rs)
{
	int err = errno, cancel = rs->cancel;

	pthread_mutex_unlock(&rs->lock);
	rs_put(rs);
	pthread_setcancelstate(cancel, NULL);
	errno = err;
}

void rs_del(struct rsock *rs)
{
	pthread_mutex_lock(&table_lock);
	table[rs->fd] = NULL;
	pthread_mutex_unlock(&table_lock);
	rs_put(rs);
}

static void fds_close(const struct rsock *rs)
{
	close(rs->kick);
	if (rs->ds) {
		ds_close_fds(rs);
		return;
	}
	if (rs->linked)
		close(rs->link.cc->fd);
	close(to_chan(rs->ch)->conn.fd);
	close(rs->fd);
}

/* Its memory stays: another thread of the parent's may have been in the midst of it. */
bool rs_close_inherited(int fd)
{
	struct rsock *rs = NULL;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_n && table[fd] && table[fd]->owner != self) {
		rs = table[fd];
		table[fd] = NULL;
	}
	pthread_mutex_unlock(&table_lock);
	if (!rs)
		return false;
	fds_close(rs);
	return true;
}

bool rs_each(void (*fn)(struct rsock *, void *), void *arg)
{
	if (pthread_mutex_trylock(&table_lock))
		return false;
	for (int i = 0; i < table_n; i++)
		if (table[i])
			fn(table[i], arg);
	pthread_mutex_unlock(&table_lock);
	return true;
}
