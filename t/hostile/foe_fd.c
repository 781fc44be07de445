/* SPDX-License-Identifier: MIT */
/*
 * foe_fd.c - descriptors of every kind that there is to be had, and what becomes of them after they were sent.
 */
#include "foe.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#define F_SEAL_ANY (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int memfd(unsigned flags, off_t len, int seals)
{
	int fd = memfd_create("foe", MFD_CLOEXEC | flags);

	if (fd >= 0 && len && ftruncate(fd, len)) {
		close(fd);
		return -1;
	}
	if (fd >= 0 && seals)
		fcntl(fd, F_ADD_SEALS, seals);
	return fd;
}

static int memfd_plain(struct foe *) { return memfd(0, FOE_MEM, 0); }
static int memfd_open(struct foe *) { return memfd(MFD_ALLOW_SEALING, FOE_MEM, 0); }
static int memfd_whole(struct foe *) { return memfd(MFD_ALLOW_SEALING, FOE_MEM, F_SEAL_SHRINK); }
static int memfd_sealed(struct foe *) { return memfd(MFD_ALLOW_SEALING, FOE_MEM, F_SEAL_ANY | F_SEAL_SEAL); }
static int memfd_empty(struct foe *) { return memfd(MFD_ALLOW_SEALING, 0, F_SEAL_SHRINK); }
static int memfd_sparse(struct foe *f)
{
	return memfd(MFD_ALLOW_SEALING, (off_t)1 << (20 + foe_below(f, 22)), F_SEAL_SHRINK);
}
bool foe_huge;

static int memfd_huge(struct foe *)
{
	return memfd(MFD_ALLOW_SEALING | (foe_huge ? MFD_HUGETLB : 0), 2 << 20, F_SEAL_SHRINK);
}

/* Rows of a table that the daemon reads: text of rules, flows. */
static int memfd_text(struct foe *f)
{
	int fd = memfd(MFD_ALLOW_SEALING, 0, 0);
	uint32_t w[256];

	for (unsigned i = 0; i < 256; i++)
		w[i] = foe_odds(f, 2) ? foe_below(f, 4) : (uint32_t)foe_dice(f);
	if (fd >= 0 && write(fd, w, 4 * foe_below(f, 257)) >= 0)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	return fd;
}

/* One end; the other one is closed or kept, too. */
static int end_of(struct foe *f, int pair[2])
{
	if (foe_odds(f, 2))
		close(pair[1]);
	else
		foe_fd_keep(f, pair[1]);
	return pair[0];
}

static int pipe_end(struct foe *f)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC | (foe_odds(f, 2) ? O_NONBLOCK : 0)))
		return -1;
	if (foe_odds(f, 2)) {
		int t = p[0];

		p[0] = p[1];
		p[1] = t;
	}
	return end_of(f, p);
}

static int socket_end(struct foe *f)
{
	static const int type[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	int p[2];

	return socketpair(AF_UNIX, type[foe_below(f, 3)] | SOCK_CLOEXEC, 0, p) ? -1 : end_of(f, p);
}

/* A socket that holds descriptors itself, itself among them. */
static int socket_full(struct foe *f)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} ctl = { 0 };
	struct iovec iov = { "x", 1 };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm = CMSG_FIRSTHDR(&mh);
	int p[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, p))
		return -1;
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(cm), p, 2 * sizeof(int));
	sendmsg(p[0], &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	return end_of(f, p);
}

static int udp(struct foe *) { return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); }
static int tcp(struct foe *) { return socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0); }
static int netlink(struct foe *) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0); }
static int path_only(struct foe *) { return open("/tmp", O_PATH | O_CLOEXEC); }
static int path_of_file(struct foe *) { return open("/proc/self/exe", O_PATH | O_CLOEXEC); }
static int dev_null(struct foe *) { return open("/dev/null", O_RDWR | O_CLOEXEC); }
static int dev_zero(struct foe *) { return open("/dev/zero", O_RDWR | O_CLOEXEC); }
static int directory(struct foe *) { return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }
static int epoll(struct foe *) { return epoll_create1(EPOLL_CLOEXEC); }
static int timer(struct foe *) { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC); }
static int watch(struct foe *) { return inotify_init1(IN_CLOEXEC); }
static int pid(struct foe *) { return (int)syscall(SYS_pidfd_open, getpid(), 0); }
static int faults(struct foe *) { return (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1); }
static int proc_mem(struct foe *) { return open("/proc/self/mem", O_RDWR | O_CLOEXEC); }
static int proc_maps(struct foe *) { return open("/proc/self/maps", O_RDONLY | O_CLOEXEC); }
static int proc_mounts(struct foe *) { return open("/proc/self/mounts", O_RDONLY | O_CLOEXEC); }
static int program(struct foe *) { return open("/proc/self/exe", O_RDONLY | O_CLOEXEC); }
static int given(struct foe *f) { return f->given[foe_below(f, FOE_GIVEN)]; }
static int own_socket(struct foe *f) { return fcntl(f->link[foe_below(f, FOE_LINKS)].fd, F_DUPFD_CLOEXEC, 3); }
static int own_kick(struct foe *f) { return fcntl(f->link[foe_below(f, FOE_LINKS)].kick, F_DUPFD_CLOEXEC, 3); }

static int file(struct foe *)
{
	char name[] = "/tmp/rdmad-foe.XXXXXX";
	int fd = mkstemp(name);

	if (fd >= 0) {
		unlink(name);
		if (ftruncate(fd, FOE_MEM)) {
			close(fd);
			return -1;
		}
	}
	return fd;
}

static int event(struct foe *f)
{
	return eventfd(foe_odds(f, 2) ? 0 : UINT32_MAX, EFD_CLOEXEC | (foe_odds(f, 2) ? EFD_NONBLOCK : 0));
}

static int signals(struct foe *)
{
	sigset_t all;

	sigfillset(&all);
	return signalfd(-1, &all, SFD_CLOEXEC);
}

static int uring(struct foe *)
{
	struct io_uring_params p = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 4, &p);

	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static int (*const kind[])(struct foe *) = {
	memfd_plain, memfd_open,   memfd_whole, memfd_sealed, memfd_empty,  memfd_sparse, memfd_huge,
	memfd_text,  pipe_end,     socket_end,  socket_full,  udp,          tcp,          netlink,
	path_only,   path_of_file, dev_null,    dev_zero,     directory,    epoll,        timer,
	watch,       pid,          faults,      proc_mem,     proc_maps,    proc_mounts,  program,
	given,       own_socket,   own_kick,    file,         event,        signals,      uring,
	memfd_whole, memfd_whole,  memfd_text,  memfd_sparse, foe_fd_other, foe_fd_other,
};

int foe_fd(struct foe *f) { return kind[foe_below(f, sizeof(kind) / sizeof(kind[0]))](f); }

int foe_fd_other(struct foe *f) { return fcntl(f->fd[foe_below(f, FOE_FDS)], F_DUPFD_CLOEXEC, 3); }

void foe_fd_keep(struct foe *f, int fd)
{
	int *at = &f->fd[foe_below(f, FOE_FDS)];

	if (fd < 0)
		return;
	for (unsigned i = 0; i < FOE_GIVEN; i++)
		if (fd == f->given[i])
			return;
	if (*at >= 0)
		close(*at);
	*at = fd;
}

void foe_fd_spoil(struct foe *f)
{
	int fd = f->fd[foe_below(f, FOE_FDS)], on = 1;
	off_t at = foe_below(f, 64) * 4096;
	uint64_t full = UINT64_MAX - 1;
	char junk[64] = { 0 };

	if (fd < 0)
		return;
	switch (foe_below(f, 8)) {
	case 0: fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)1 << 40); break;
	case 1: fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 4096); break;
	case 2: on = ftruncate(fd, foe_odds(f, 2) ? 0 : at); break;
	case 3: on = ftruncate(fd, (off_t)1 << (12 + foe_below(f, 30))); break;
	case 4: fcntl(fd, F_ADD_SEALS, 1 << foe_below(f, 5)); break;
	case 5: /* then it may block whoever thinks it does not; not us: only what nobody waits for */
		fcntl(fd, F_SETFL, O_NONBLOCK);
		on = write(fd, &full, sizeof(full)) > 0;
		fcntl(fd, F_SETFL, 0);
		break;
	case 6: on = pwrite(fd, junk, sizeof(junk), at) > 0; break;
	case 7: ioctl(fd, FIOASYNC, &on); break;
	}
}
