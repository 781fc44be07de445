/* SPDX-License-Identifier: MIT */
/*
 * peers.c - a hostile neighbour by dice (stranger.h), and queue pairs between two daemons that go on (pair.h).
 *
 *	peers [SEED [PACKETS]]	or $HOSTILE_SEED, $HOSTILE_PACKETS; $HOSTILE_SECONDS instead of a number of packets;
 *				without any of them by whichever comes first of both (as in clients.c)
 *
 * To an address that has proved nothing at most AMPLIFY times as many bytes are sent as came from it.
 */
#include "t/suite.h"

#include "pair.h"
#include "stage.h"
#include "stranger.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PACKETS   30000u
#define SECONDS   8.0
#define PATIENT_S 30
#define BATCH     32
#define STALL_S   0.05
#define AMPLIFY   3
#define QUIET_S   3.0 /* longer than a message of the CM waits until it is repeated */
#define REPEAT_S  10.0

static uint64_t seed = 1, packets;
static double seconds; /* 0: as long as it takes */
static struct pair *pair;

/* Each side is a process with its daemon, which must be as empty in the end as at the beginning. */
static void side(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	pair_daemon(n);
	pair_play(pair, n);
	daemon_clean();
	daemon_stop();
}

static void rounds_get(uint32_t *r)
{
	for (unsigned k = 0; k < PAIR_QPS; k++)
		r[k] = __atomic_load_n(&pair->rounds[k], __ATOMIC_SEQ_CST);
}

static void still_there(const pid_t *sides)
{
	int status;

	for (unsigned i = 0; i < 2; i++)
		ck_assert_msg(waitpid(sides[i], &status, WNOHANG) == 0, "side %u gave up", i);
}

/*
 * A batch for each round of RC: what is sent faster than the daemons take it, on a machine with much to do, would wait in
 * their sockets for longer than RC repeats.  Whoever brings RC to a stop is not done with it either.
 */
static void attack(struct stranger *s)
{
	static uint32_t round;
	static double sent_s;
	uint32_t now = __atomic_load_n(&pair->rounds[PAIR_RC], __ATOMIC_SEQ_CST);

	stranger_count(s);
	if (now == round && stage_seconds() - sent_s < STALL_S)
		return;
	for (unsigned n = 0; n < BATCH; n++)
		stranger_step(s);
	round = now;
	sent_s = stage_seconds();
}

/* Waits for a round more of each queue pair, while the stranger goes on if it is there. */
static void rounds_go_on(const pid_t *sides, struct stranger *s)
{
	static const char *const name[PAIR_QPS] = { "RC", "UC", "UD" };
	double begun = stage_seconds();
	uint32_t from[PAIR_QPS], now[PAIR_QPS];
	bool all = false;

	rounds_get(from);
	while (!all) {
		all = true;
		if (s)
			attack(s);
		rounds_get(now);
		for (unsigned k = 0; k < PAIR_QPS; k++) {
			all &= now[k] != from[k];
			ck_assert_msg(now[k] != from[k] || !stage_late(begun, PATIENT_S), "%s: no round in %.0f s",
				      name[k], stage_seconds() - begun);
		}
		still_there(sides);
		poll(NULL, 0, 1);
	}
}

static uint64_t got_all(struct stranger *s)
{
	uint64_t n = 0;

	stranger_count(s);
	for (unsigned i = 0; i < STRANGER_SRC; i++)
		n += s->src[i].got;
	return n;
}

/* Before it is judged, the daemons have ended their repetitions, or gone on with them for a while. */
static void amplified(struct stranger *s, const pid_t *sides)
{
	double quiet = stage_seconds(), end = quiet + REPEAT_S;
	uint64_t got = got_all(s);

	while (stage_seconds() - quiet < QUIET_S && stage_seconds() < end) {
		rounds_go_on(sides, NULL);
		if (got_all(s) != got)
			quiet = stage_seconds();
		got = got_all(s);
	}
	for (unsigned i = 0; i < STRANGER_SRC; i++) {
		printf("peers: forged source %u: %llu bytes sent, %llu got\n", i, (unsigned long long)s->src[i].sent,
		       (unsigned long long)s->src[i].got);
		fflush(stdout);
		ck_assert_uint_le(s->src[i].got, AMPLIFY * s->src[i].sent);
	}
}

START_TEST(peers)
{
	struct in_addr honest[2];
	struct stranger s;
	pid_t sides[2];
	double end;

	seed += (uint64_t)_i;
	printf("peers: seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	stage_network();
	pair = pair_new();
	for (unsigned i = 0; i < 2; i++) {
		honest[i] = pair_addr(i);
		sides[i] = part_begin(0, side, (void *)(uintptr_t)i);
	}
	ck_assert_int_eq(stranger_open(&s, seed, honest, pair_net(), PAIR_PORT), 0);
	rounds_go_on(sides, NULL);
	end = seconds > 0 ? stage_seconds() + seconds : 1e18;
	while ((!packets || s.packets < packets) && stage_seconds() < end)
		rounds_go_on(sides, &s);
	printf("peers: %llu packets, %u accepted, %u RC %u UC %u UD rounds\n", (unsigned long long)s.packets,
	       pair->accepted, pair->rounds[0], pair->rounds[1], pair->rounds[2]);
	fflush(stdout);
	amplified(&s, sides);
	__atomic_store_n(&pair->over, true, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < 2; i++)
		part_end(sides[i]);
}
END_TEST

int main(int argc, char **argv)
{
	const char *s = getenv("HOSTILE_SECONDS");
	int parts;

	stage_number(&seed, argc > 1 ? argv[1] : NULL, "HOSTILE_SEED");
	stage_number(&packets, argc > 2 ? argv[2] : NULL, "HOSTILE_PACKETS");
	if (!packets && s)
		seconds = strtod(s, NULL);
	if (!packets && seconds <= 0) {
		packets = PACKETS;
		seconds = SECONDS;
	}
	parts = stage_parts(&seconds);
	return stage_main_for("hostile: peers", (const TTest *const[]){ peers, NULL },
			      seconds > 0 ? 240 + 2 * seconds : 7200, parts);
}
