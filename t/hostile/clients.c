/* SPDX-License-Identifier: MIT */
/*
 * clients.c - hostile clients by dice (foe.h), and two honest users whose every byte is compared.
 *
 *	clients [SEED [OPERATIONS]]	or $HOSTILE_SEED, $HOSTILE_OPS; $HOSTILE_SECONDS instead of a number of operations
 *
 * Without any of them it ends by whichever comes first, a number or a time: as much as a busy machine has time for is enough for one
 * with nothing else to do.
 *
 * Troupes, each of a user of its own, run one foe after the other.  Foes kill themselves, split, or end in order.  Three
 * acts; after each one everybody leaves, and the daemon must be what it was before: objects, descriptors, mappings, heap.
 * A failure is said with its seed: foe N of troupe K of that seed says the same again.
 */
#include "t/suite.h"

#include "foe.h"
#include "fuse.h"
#include "stage.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TROUPES   3
#define ACTS      3
#define FOE_OPS   1500u     /* of one foe, at most */
#define OPS       90000u    /* unless told otherwise, */
#define SECONDS   15.0      /* and no longer than this */
#define HEAP_ROOM (8 << 20) /* tables of handles keep the size that they needed most; a leak is more in 10^6 steps */
#define TRIES     300u      /* of a request: one of them should have been right */

static struct show {
	struct foe_tally tally;
	uint64_t stop; /* an act ends when so many steps are done */
	double end_s;  /* or at that time */
	unsigned foes[TROUPES];
	unsigned rounds; /* of the second honest user */
	bool over;
} * show;
static uint64_t seed = 1, ops;
static int given[FOE_GIVEN] = { -1, -1 }; /* a packet socket of another network; a file of FUSE */
static bool with_fuse;
static double seconds; /* 0: as long as it takes */

/* ---- the second honest user: two contexts, WRITE and SEND of any length from one to the other ---------------- */

static void fill(uint8_t *p, uint32_t len, unsigned round)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(round * 31 + i * 7 + (i >> 8));
}

static void completion(struct cx *c, uint64_t wr_id)
{
	struct cqe e;

	ck_assert_msg(stage_poll(c, &e), "the honest user waits for a completion in vain");
	if (e.status != WC_SUCCESS)
		stage_explain(c);
	ck_assert_uint_eq(e.status, WC_SUCCESS);
	ck_assert_uint_eq(e.wr_id, wr_id);
}

static void write_to(struct cx *a, struct cx *b, uint64_t wr_id, uint32_t len)
{
	struct send_wr *wr = ring_slot(&a->sq, a->sq.pos);

	*wr = (struct send_wr){ .wr_id = wr_id,
				.op = WR_WRITE,
				.flags = WR_SIGNALED,
				.sge_n = 1,
				.remote_addr = (uintptr_t)b->buf + CX_BUF / 2,
				.rkey = b->key };
	*(struct sge *)(wr + 1) = (struct sge){ (uintptr_t)a->buf, len, a->key };
	ring_publish(&a->sq, 1);
	cx_ring(a, a->qp_bell);
}

static void honest(void *)
{
	struct cx a, b;

	cx_open(&a);
	cx_open(&b);
	cx_connect(&a, &b);
	cx_connect(&b, &a);
	for (unsigned round = 1; !__atomic_load_n(&show->over, __ATOMIC_SEQ_CST); round++) {
		uint32_t len = 1 + round * 7919u % (CX_BUF / 2);

		memset(b.buf, 0, CX_BUF);
		fill(a.buf, len, round);
		write_to(&a, &b, round, len);
		completion(&a, round);
		ck_assert_int_eq(memcmp(a.buf, b.buf + CX_BUF / 2, len), 0);
		cx_recv(&b, round, 0, CX_BUF / 2);
		cx_send(&a, round, 0, len);
		completion(&a, round);
		completion(&b, round);
		ck_assert_int_eq(memcmp(a.buf, b.buf, len), 0);
		__atomic_store_n(&show->rounds, round, __ATOMIC_SEQ_CST);
	}
	cx_close(&a);
	cx_close(&b);
}

/* ---- troupes --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static bool curtain(void)
{
	return __atomic_load_n(&show->tally.steps, __ATOMIC_RELAXED) >= show->stop || stage_seconds() >= show->end_s;
}

/* Until nothing is left of the foe, children of dead ones too: they are its process group. */
static void await(pid_t foe, unsigned troupe, unsigned n, uint64_t s)
{
	int status;

	while (waitpid(-foe, &status, 0) > 0) {
		bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

		if (killed || status == 0)
			continue;
		fprintf(stderr, "foe %u of troupe %u, its dice %#llx: %s (status %#x)\n", n, troupe,
			(unsigned long long)s,
			WIFEXITED(status) && WEXITSTATUS(status) == FOE_HANG ? "the daemon hangs" : "failed", status);
		_exit(1);
	}
}

static void perform(void *arg)
{
	unsigned troupe = (unsigned)(uintptr_t)arg;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	while (!curtain()) {
		unsigned n = show->foes[troupe]++;
		uint64_t s = mix(mix(seed * TROUPES + troupe) + n);
		pid_t foe = fork();

		setpgid(foe, foe);
		if (!foe) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			foe_play(s, 1 + (unsigned)(s >> 32) % FOE_OPS, given, &show->tally);
			_exit(0);
		}
		await(foe, troupe, n, s);
	}
}

/* The same with a file that its server does not let go of.  The server first: the daemon waits for it, and may at last be rid of us. */
static void perform_fuse(void *arg)
{
	given[1] = fuse_file();
	ck_assert_int_ge(given[1], 0);
	perform(arg);
	kill((pid_t)note->n[3], SIGKILL);
	waitpid((pid_t)note->n[3], NULL, 0);
}

/* ---- the show ---------------------------------------------------------------------------------- */

static long mappings(void)
{
	char path[64], *line = NULL;
	size_t room = 0;
	long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)daemon_process());
	f = fopen(path, "re");
	ck_assert(f != NULL);
	while (getline(&line, &room, f) > 0)
		n++;
	free(line);
	fclose(f);
	return n;
}

/* It has not failed; that it has come to its end may be. */
static void is_well(pid_t troupe)
{
	siginfo_t si = { 0 };

	waitid(P_PID, (id_t)troupe, &si, WEXITED | WNOHANG | WNOWAIT);
	ck_assert_msg(!si.si_pid || (si.si_code == CLD_EXITED && !si.si_status), "a troupe gave up");
}

/* Both honest users go on while the foes play. */
static void watch(pid_t user, const pid_t *troupe)
{
	int status;

	while (!curtain()) {
		unsigned before = __atomic_load_n(&show->rounds, __ATOMIC_SEQ_CST);
		double begun = stage_seconds();

		stage_goes_on(1);
		while (__atomic_load_n(&show->rounds, __ATOMIC_SEQ_CST) == before) {
			ck_assert_msg(waitpid(user, &status, WNOHANG) == 0, "the second honest user gave up");
			ck_assert_msg(!stage_late(begun, FOE_PATIENCE_S), "the second honest user stands still");
			usleep(1000);
		}
		for (unsigned i = 0; i < TROUPES; i++)
			is_well(troupe[i]);
	}
}

static void act(unsigned n)
{
	static const uid_t uid[TROUPES] = { UID_ATTACKER, UID_ATTACKER + 10, UID_ATTACKER + 11 };
	pid_t troupe[TROUPES], user;

	show->over = false;
	show->stop = ops ? ops * (n + 1) / ACTS : UINT64_MAX;
	show->end_s = seconds > 0 ? stage_seconds() + seconds / ACTS : 1e18;
	user = part_begin(UID_VICTIM, honest, NULL);
	for (unsigned i = 0; i < TROUPES; i++)
		troupe[i] = !i && with_fuse ? part_begin(0, perform_fuse, NULL)
					    : part_begin(uid[i], perform, (void *)(uintptr_t)i);
	watch(user, troupe);
	for (unsigned i = 0; i < TROUPES; i++)
		part_end(troupe[i]);
	__atomic_store_n(&show->over, true, __ATOMIC_SEQ_CST);
	part_end(user);
}

/* Of a message that is never right the daemon has seen the check of its length only. */
static void reached(void)
{
	static const char *const name[CMM_OPS] = {
#define MSG(name, row, needs, handler, verb) [MSG_##name] = #name,
#define MSG_FREE(name, object, verb)         [MSG_##name] = #name,
#define CMM(name, row, needs, handler, call) [CMM_##name] = "CM " #name,
#include <rdmad/cmmsg.def>
#include <rdmad/msg.def>
#undef CMM
#undef MSG
#undef MSG_FREE
	};
	/* They name what was made before. */
	static const uint32_t common[] = { MSG_MR_REG, MSG_QP_CREATE, MSG_QP_MODIFY,   CMM_QUERY,
					   CMM_BIND,   CMM_LISTEN,    CMM_RESOLVE_ADDR };

	for (unsigned i = 0; i < CMM_OPS; i++)
		if (name[i] && !show->tally.good[i])
			printf("clients: %s was never done, %u times refused\n", name[i], show->tally.refused[i]);
	for (unsigned i = 0; i < sizeof(common) / sizeof(*common); i++)
		ck_assert_msg(show->tally.good[common[i]] || show->tally.refused[common[i]] < TRIES,
			      "%s was never done: do the clients still know what the daemon answers?", name[common[i]]);
}

START_TEST(clients)
{
	long heap = 0, maps = 0;

	seed += (uint64_t)_i;
	printf("clients: seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	show = mmap(NULL, sizeof(*show), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(show != MAP_FAILED);
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	given[0] = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	stage_open("--shards=1");
	printf("clients: heap %ld, %ld mappings\n", daemon_heap(), mappings());
	for (unsigned n = 0; n < ACTS; n++) {
		if (n)
			stage_resume();
		act(n);
		stage_rest();
		printf("clients: %llu operations, heap %ld, %ld mappings\n", (unsigned long long)show->tally.steps,
		       daemon_heap(), mappings());
		fflush(stdout);
		if (!n) { /* what the daemon keeps of those that were, it has by now */
			heap = daemon_heap();
			maps = mappings();
		}
	}
	reached();
	ck_assert_int_le(daemon_heap(), heap + HEAP_ROOM);
	if (heap) /* a sanitizer's heap maps as it likes */
		ck_assert_int_le(mappings(), maps + 16);
	daemon_stop();
}
END_TEST

int main(int argc, char **argv)
{
	const char *s = getenv("HOSTILE_SECONDS");
	int parts;

	stage_number(&seed, argc > 1 ? argv[1] : NULL, "HOSTILE_SEED");
	stage_number(&ops, argc > 2 ? argv[2] : NULL, "HOSTILE_OPS");
	if (!ops && s)
		seconds = strtod(s, NULL);
	if (!ops && seconds <= 0) {
		ops = OPS;
		seconds = SECONDS;
	}
	with_fuse = geteuid() == 0 && fuse_is_here();
	foe_huge = stage_huge_pages(false);
	parts = stage_parts(&seconds);
	return stage_main_for("hostile: clients", (const TTest *const[]){ clients, NULL },
			      seconds > 0 ? 120 + 2 * seconds : 7200, parts);
}
