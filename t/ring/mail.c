/* SPDX-License-Identifier: MIT */
/* mail.c - a program that asks by a mailbox or a socket, and a daemon that looks there now and then: each request has one reply, its own. */
#include <pthread.h>

#include <rdmad/mail.h>

#include "t/suite.h"
#include "t/turn.h"
#include "t/xorshift.h"

#define ROUNDS 200000u

static struct mail mail;
static uint32_t asked, answered; /* the socket: the request's number, the reply's; 0: none */
static bool over;
static unsigned served;

static uint32_t get(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void put(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

static uint32_t number(const uint8_t *p)
{
	uint32_t n;

	memcpy(&n, p, sizeof(n));
	return n;
}

static void by_mail(void)
{
	uint32_t n;

	if (!mail_asked(&mail) || !mail_take(&mail))
		return;
	n = number(mail.req);
	served++;
	memcpy(mail.rep, &n, sizeof(n));
	if (!mail_answer(&mail))
		put(&answered, n);
}

static void by_socket(void)
{
	uint32_t n = __atomic_exchange_n(&asked, 0, __ATOMIC_ACQ_REL);

	if (!n)
		return;
	served++;
	put(&answered, n);
}

/* As the control thread does before it sleeps. */
static void rest(void)
{
	mail_look(&mail, false);
	if (mail_asked(&mail))
		mail_look(&mail, true);
}

static void *daemon_run(void *)
{
	uint64_t seed = 88172645463325252;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		uint64_t r = xorshift(&seed);

		by_socket();
		if (mail_is_looked_at(&mail))
			by_mail();
		if (r % 4 == 0)
			rest();
		if (r % 4 == 1)
			mail_look(&mail, true);
		if (r / 256 % 16 == 0) /* by other dice */
			turn_away();
	}
	return NULL;
}

static uint32_t socket_hear(void)
{
	uint32_t n;

	while (!(n = __atomic_exchange_n(&answered, 0, __ATOMIC_ACQ_REL)))
		turn_away();
	return n;
}

/* How often it waits before it sleeps. */
static uint32_t ask(uint32_t n, unsigned looks, unsigned *mails)
{
	bool sleeps = false;
	uint32_t got;

	memcpy(mail.req, &n, sizeof(n));
	if (!mail_is_looked_at(&mail) || !mail_ask(&mail)) {
		put(&asked, n);
		return socket_hear();
	}
	++*mails;
	while (!mail_is_done(&mail) && !sleeps) {
		sleeps = !looks && mail_sleep(&mail);
		looks -= looks > 0;
	}
	got = sleeps ? socket_hear() : number(mail.rep);
	mail_clear(&mail);
	return got;
}

START_TEST(one_reply_each)
{
	uint64_t seed = 1181783497276652981;
	unsigned mails = 0;
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, daemon_run, NULL), 0);
	for (uint32_t n = 1; n <= ROUNDS; n++)
		ck_assert_uint_eq(ask(n, xorshift(&seed) % 64, &mails), n);
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	ck_assert_uint_eq(served, ROUNDS);
	ck_assert_uint_gt(mails, 0);
	ck_assert_uint_lt(mails, ROUNDS);
	ck_assert_uint_eq(get(&answered), 0);
}
END_TEST

TEST_MAIN("mail", one_reply_each)
