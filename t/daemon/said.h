/* SPDX-License-Identifier: MIT */
/* said.h - a cause is brought about, and its sentence compared. */
#ifndef T_DAEMON_SAID_H
#define T_DAEMON_SAID_H

#include <regex.h>
#include <stdio.h>

#include "daemon/control/why_text.h"
#include "proto/why.h"
#include "t/proto/rig.h"
#include "t/suite.h"
/* clang-format off */
#define OF	"; [A-Z_]+ with PSN 0x[0-9a-f]+ of 127\\.0\\.0\\.1 QP 0x[0-9a-f]+"	/* the packet, sent by a */
#define RECV	OF "; receive wr_id 0x1$"
#define DEREG	"was deregistered [0-9]+ [num]s before \\(ibv_dereg_mr\\): the MR was 0x[0-9a-f]+ \\+ [0-9]+"
#define ERR	"^QP 0x[0-9a-f]+ to ERR: "
#define STAYS	"^QP 0x[0-9a-f]+: "

static inline bool match(const char *text, const char *pattern)
{
	regex_t re;
	bool is;

	ck_assert_int_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	is = !regexec(&re, text, 0, NULL, 0);
	regfree(&re);
	return is;
}

/* Among the causes of a host is this one, and its sentence is that. */
static inline struct why said(struct host *x, unsigned cause, const char *pattern)
{
	char text[WHY_TEXT] = "nothing";
	struct why w;

	while (hca_why(x->h, &w)) {
		struct words t = words_begin(text, sizeof(text));

		why_words(&t, &w, false);
		if (w.cause != cause)
			continue;
		ck_assert_msg(match(text, pattern), "%s\nwanted: %s\ngot:    %s", why_name(cause), pattern, text);
		ck_assert_msg(*why_advice(&w), "%s: no hint", why_name(cause));
		return w;
	}
	ck_abort_msg("%s was not told, last: %s", why_name(cause), text);
}
#define SAID(host, cause, pattern) said((host), WHY_##cause, pattern)

static inline void keyed(struct host *x, unsigned cause, unsigned key, const char *pattern)
{
	struct why w = said(x, cause, pattern);

	ck_assert_msg(w.key.why == key, "%s, not %s", why_name(w.key.why), why_name(key));
	ck_assert_str_eq(why_advice(&w), why_hint(key));
}
#define KEYED(host, cause, key, pattern) keyed((host), WHY_##cause, WHY_##key, pattern)

static inline void open_rig(struct rig *r, uint8_t type)
{
	struct link_conf c = conf_rc;

	c.type = type;
	rig_init(r, LINK_WIRE);
	rig_connect(r, &c);
}

#endif
