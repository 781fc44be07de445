/* SPDX-License-Identifier: MIT */
/*
 * uring.c - waiting with io_uring.
 *
 * Each file has one single-shot poll.  It is armed, together with all others that fired since, by
 * the very system call that waits; so while the shard is busy and does not come here, a file costs
 * at most one wake-up, however many datagrams arrive.  Arming looks at the file first: what came in
 * between is not missed.
 *
 * A word is the same with a futex in place of the poll (Linux 6.7): its waker needs one system call, and
 * the sleeper none to find out.
 *
 * The kernel leaves a flag in the ring when something has become ready (Linux 5.19), before the system call of who made it so
 * returns.  A file of much traffic, that fires as soon as it is armed, would make the flag worthless: uring_look() arms only
 * what programs kick.
 *
 * The ring takes polls, these waits and their end, and nothing else: what goes through a ring passes by the filter of
 * system calls (../base/sandbox.h), which could open files and sockets otherwise.
 *
 *	slot	0 ... IO_FILES-1: files	| IO_FILES ... : words
 *	idle	those to be armed at the next wait
 */
#include "io.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES 256u
#define NO_SLOT UINT64_MAX /* user data of what nobody waits for */
#define SLOTS   (IO_FILES + IO_WORDS)

/* Of Linux 6.7; the headers may be older. */
#define OP_FUTEX_WAIT 51 /* IORING_OP_FUTEX_WAIT */
#define FUTEX_U32     2  /* FUTEX2_SIZE_U32, shared between processes */

struct file {
	int fd; /* -1: unused, or a word */
	bool armed, write;
	bool listed;    /* in idle */
	uint32_t life;  /* tells answers to an earlier poll of this slot */
	uint32_t *word; /* NULL: unused, or a file */
	uint32_t value; /* while the word has it there is nothing to wake for */
	bool awaited;   /* a word: has its value */
};

struct uring {
	struct io_uring ring;
	bool words; /* the kernel has them */
	bool defer; /* work is done by enter() and waits alone */
	bool flag;  /* of what is ready; the kernel has it */
	bool due;   /* a word that is awaited, or BELLS_SLOT, may be still to be armed */
	struct file file[SLOTS];
	unsigned idle_n;
	unsigned idle[SLOTS]; /* slots to be armed; one that is not used any more may be among them */
};

/* Newer kernels first: work is then done when this thread asks for it, not by interrupting it. */
static int ring_init(struct io_uring *ring)
{
	static const unsigned flags[] = { IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
						  IORING_SETUP_TASKRUN_FLAG,
					  IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0 };
	struct io_uring_params p;
	int ret = -EINVAL;

	for (unsigned i = 0; i < sizeof(flags) / sizeof(*flags) && ret == -EINVAL; i++) {
		memset(&p, 0, sizeof(p));
		p.flags = flags[i] | IORING_SETUP_CQSIZE | IORING_SETUP_R_DISABLED;
		p.cq_entries = 2 * SLOTS;
		ret = io_uring_queue_init_params(ENTRIES, ring, &p);
	}
	if (ret == 0 && !(p.features & IORING_FEAT_EXT_ARG)) { /* waiting with a timeout: Linux 5.11 */
		io_uring_queue_exit(ring);
		return ENOSYS;
	}
	return -ret;
}

static bool has_words(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool has = probe && io_uring_opcode_supported(probe, OP_FUTEX_WAIT);

	if (probe)
		io_uring_free_probe(probe);
	return has;
}

/* liburing 2.3 has names for these two, and forgot to export them. */
static int ring_register(const struct io_uring *ring, unsigned what, const void *arg, unsigned n)
{
	return syscall(SYS_io_uring_register, ring->ring_fd, what, arg, n) < 0 ? errno : 0;
}

/* From now on the ring works, and no more can be asked of it than this. */
static int ring_enable(struct io_uring *ring, bool words)
{
	static const uint8_t ops[] = { IORING_OP_POLL_ADD, IORING_OP_POLL_REMOVE, IORING_OP_ASYNC_CANCEL,
				       OP_FUTEX_WAIT };
	struct io_uring_restriction r[sizeof(ops)];
	int err;

	memset(r, 0, sizeof(r));
	for (unsigned i = 0; i < sizeof(ops); i++) {
		r[i].opcode = IORING_RESTRICTION_SQE_OP;
		r[i].sqe_op = ops[i];
	}
	err = ring_register(ring, IORING_REGISTER_RESTRICTIONS, r, (unsigned)sizeof(ops) - !words);
	if (!err)
		err = ring_register(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	return err;
}

static void uring_stop(void *state)
{
	struct uring *u = state;

	io_uring_queue_exit(&u->ring);
	free(u);
}

static int uring_start(void **state)
{
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return ENOMEM;
	err = ring_init(&u->ring);
	if (err) {
		free(u);
		return err;
	}
	u->flag = u->ring.flags & IORING_SETUP_TASKRUN_FLAG;
	u->defer = u->ring.flags & IORING_SETUP_DEFER_TASKRUN;
	u->words = has_words(&u->ring);
	err = ring_enable(&u->ring, u->words);
	if (err) {
		uring_stop(u);
		return err;
	}
	for (unsigned i = 0; i < SLOTS; i++)
		u->file[i].fd = -1;
	*state = u;
	return 0;
}

static struct io_uring_sqe *sqe_get(struct uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (sqe)
		return sqe;
	io_uring_submit(&u->ring);
	return io_uring_get_sqe(&u->ring);
}

static uint64_t poll_name(const struct uring *u, unsigned slot) { return (uint64_t)u->file[slot].life << 32 | slot; }

static void idle_put(struct uring *u, unsigned slot)
{
	u->due |= slot == BELLS_SLOT || slot >= IO_FILES;
	if (!u->file[slot].listed)
		u->idle[u->idle_n++] = slot;
	u->file[slot].listed = true;
}

static void file_disarm(struct uring *u, unsigned slot)
{
	struct file *f = &u->file[slot];
	struct io_uring_sqe *sqe;

	if (f->armed) {
		sqe = sqe_get(u);
		if (sqe && f->word)
			io_uring_prep_cancel64(sqe, poll_name(u, slot), 0);
		else if (sqe)
			io_uring_prep_poll_remove(sqe, poll_name(u, slot));
		if (sqe)
			sqe->user_data = NO_SLOT;
	}
	f->armed = false;
	f->life++;
}

/*
 * Submits, and has done what is ready.  Up to Linux 6.8 the flag may be left over from what was done already, and nothing but
 * new work would take it away.  So it is taken here: what had set it is in the list that this call works off.  Only with
 * DEFER_TASKRUN the list is before the flag.
 */
static void enter(struct uring *u)
{
	unsigned n = io_uring_sq_ready(&u->ring), old = 0;

	if (u->defer && __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN)
		old = __atomic_fetch_and(u->ring.sq.kflags, ~IORING_SQ_TASKRUN, __ATOMIC_SEQ_CST) & IORING_SQ_TASKRUN;
	if (io_uring_submit_and_get_events(&u->ring) != (int)n && old) /* not worked off, perhaps */
		__atomic_fetch_or(u->ring.sq.kflags, old, __ATOMIC_SEQ_CST);
}

static int uring_add(void *state, unsigned slot, int fd)
{
	struct uring *u = state;

	u->file[slot].fd = fd;
	u->file[slot].armed = u->file[slot].write = false;
	u->file[slot].life++;
	idle_put(u, slot);
	return 0;
}

static void uring_del(void *state, unsigned slot, int)
{
	struct uring *u = state;

	file_disarm(u, slot);
	enter(u); /* a poll that is still armed would keep the closed file alive, and its port; and so one that is not done with */
	u->file[slot].fd = -1;
}

static void uring_want_write(void *state, unsigned slot, int, bool on)
{
	struct uring *u = state;

	if (u->file[slot].write == on)
		return;
	file_disarm(u, slot);
	u->file[slot].write = on;
	idle_put(u, slot);
}

static unsigned uring_word_add(void *state, uint32_t *word, uint32_t value)
{
	struct uring *u = state;
	unsigned slot = IO_FILES;

	while (slot < SLOTS && u->file[slot].word)
		slot++;
	if (!u->words || slot == SLOTS)
		return 0;
	u->file[slot].word = word;
	u->file[slot].value = value;
	u->file[slot].awaited = false;
	return slot;
}

/* One that is armed stays so: while the word has another value nobody wakes it. */
static void uring_word_await(void *state, unsigned slot, bool on)
{
	struct uring *u = state;
	struct file *f = &u->file[slot];

	f->awaited = on;
	if (on && !f->armed)
		idle_put(u, slot);
}

static void uring_word_del(void *state, unsigned slot)
{
	struct uring *u = state;

	file_disarm(u, slot);
	io_uring_submit(&u->ring);
	u->file[slot].word = NULL;
	u->file[slot].awaited = false;
}

/* A wake-up and the wait must have one of 32 bits in common. */
static void prep_futex_wait(struct io_uring_sqe *sqe, const struct file *f)
{
	const uint64_t any = UINT32_MAX;

	io_uring_prep_rw(OP_FUTEX_WAIT, sqe, FUTEX_U32, f->word, 0, f->value);
	memcpy((uint8_t *)sqe + 48, &any, sizeof(any)); /* addr3 */
}

static bool file_arm(struct uring *u, unsigned slot)
{
	struct file *f = &u->file[slot];
	struct io_uring_sqe *sqe = sqe_get(u);

	if (!sqe)
		return false;
	if (f->word)
		prep_futex_wait(sqe, f);
	else
		io_uring_prep_poll_add(sqe, f->fd, f->write ? POLLIN | POLLOUT : POLLIN);
	sqe->user_data = poll_name(u, slot);
	f->armed = true;
	return true;
}

/* all: or only what programs kick.  What is not used, or a word that is not awaited any more, goes out of the list. */
static void idle_arm(struct uring *u, bool all)
{
	unsigned n = u->idle_n, slot;
	struct file *f;
	bool kicks;

	u->idle_n = 0;
	u->due = false;
	for (unsigned i = 0; i < n; i++) {
		slot = u->idle[i];
		f = &u->file[slot];
		kicks = f->word || slot == BELLS_SLOT;
		f->listed = false;
		if ((f->word ? f->awaited : f->fd >= 0) && !f->armed && (!(all || kicks) || !file_arm(u, slot))) {
			f->listed = true;
			u->idle[u->idle_n++] = slot;
			u->due |= kicks;
		}
	}
}

static unsigned ready_take(struct uring *u, unsigned *ready, unsigned max)
{
	struct io_uring_cqe *cqe;
	unsigned n = 0, slot;

	while (n < max && io_uring_peek_cqe(&u->ring, &cqe) == 0) {
		slot = (unsigned)(cqe->user_data & UINT32_MAX);
		if (cqe->user_data != NO_SLOT && slot < SLOTS && poll_name(u, slot) == cqe->user_data) {
			u->file[slot].armed = false;
			if (!u->file[slot].word)
				idle_put(u, slot);
			ready[n++] = slot;
		}
		io_uring_cqe_seen(&u->ring, cqe);
	}
	return n;
}

static unsigned uring_wait(void *state, uint64_t timeout_ns, unsigned *ready, unsigned max)
{
	struct uring *u = state;
	struct __kernel_timespec ts = { (int64_t)(timeout_ns / 1000000000), (int64_t)(timeout_ns % 1000000000) };
	struct io_uring_cqe *cqe;

	idle_arm(u, true);
	if (timeout_ns == 0)
		enter(u);
	else
		io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, timeout_ns == UINT64_MAX ? NULL : &ts, NULL);
	return ready_take(u, ready, max);
}

static enum io_rung uring_rung(const void *state)
{
	const struct uring *u = state;

	if (!u->flag)
		return IO_UNKNOWN;
	return u->due || __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN ||
			       io_uring_cq_ready(&u->ring)
		       ? IO_RUNG
		       : IO_SILENT;
}

static unsigned uring_look(void *state, unsigned *ready, unsigned max)
{
	struct uring *u = state;

	idle_arm(u, false);
	enter(u);
	return ready_take(u, ready, max);
}

const struct io_way io_uring_way = {
	.name = "io_uring",
	.start = uring_start,
	.stop = uring_stop,
	.add = uring_add,
	.del = uring_del,
	.want_write = uring_want_write,
	.word_add = uring_word_add,
	.word_del = uring_word_del,
	.word_await = uring_word_await,
	.rung = uring_rung,
	.look = uring_look,
	.wait = uring_wait,
};
