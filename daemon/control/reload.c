/* SPDX-License-Identifier: MIT */
/* reload.c - see reload.h. */
#include "reload.h"

#include <ev.h>
#include <signal.h>
#include <string.h>

#include "../base/log.h"
#include "../base/notify.h"
#include "../base/quota.h"
#include "impair.h"

static struct {
	ev_signal hup;
	struct conf *now;
	conf_reader *read;
	unsigned hcas;
} reload;

static void say(const char *line) { log_err("%s", strncmp(line, "rdmad: ", 7) ? line : line + 7); }

static void changed(const char *key, bool now)
{
	if (now)
		log_note("SIGHUP: %s is as the configuration says now", key);
	else
		log_warn("SIGHUP: %s has changed in the configuration, which takes effect at the next start", key);
}

/* The rows NOW of conf.def.  What a client has beyond a limit that has become lower it keeps. */
static void apply(struct conf *now, const struct conf *next)
{
	now->users = next->users;
	now->log_level = next->log_level;
	memcpy(now->quota, next->quota, sizeof(now->quota));
	memcpy(now->impair, next->impair, sizeof(now->impair));
	quota_begin(now->quota, reload.hcas);
	if (impair_again() > 0)
		log_note("SIGHUP: the rules of fault have been read again");
	log_level_set(now->log_level);
}

static void on_hup(struct ev_loop *, ev_signal *, int)
{
	static struct conf next;

	notify_reloading();
	if (!reader_ask(reload.read, &next)) {
		log_err("SIGHUP: the configuration stays as it was");
		notify_ready("serves; its configuration is wrong now, and it goes on with the one before: see the log");
		return;
	}
	log_note("SIGHUP: the configuration has been read again");
	conf_changes(reload.now, &next, changed);
	apply(reload.now, &next);
	notify_ready("serves");
}

void reload_start(struct ev_loop *loop, struct conf *now, conf_reader *read, unsigned hcas)
{
	conf_say = say;
	reload.now = now;
	reload.read = read;
	reload.hcas = hcas;
	ev_signal_init(&reload.hup, on_hup, SIGHUP);
	ev_signal_start(loop, &reload.hup);
	notify_ready("serves");
}

void reload_stop(struct ev_loop *loop)
{
	notify_stopping();
	ev_signal_stop(loop, &reload.hup);
	reader_end();
}
