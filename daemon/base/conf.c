/* SPDX-License-Identifier: MIT */
/*
 * conf.c - rdmad.conf, read with libconfuse.
 *
 * Values are checked where they are parsed, so that an error names its line.
 */
#include "conf_in.h"
#include "conf_text.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/number.h>

bool conf_io_parse(const char *text, enum io_kind *io)
{
	static const char *const names[] = { [IO_AUTO] = "auto", [IO_URING] = "uring", [IO_EPOLL] = "epoll" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i])) {
			*io = (enum io_kind)i;
			return true;
		}
	}
	return false;
}

void conf_default(struct conf *c)
{
	memset(c, 0, sizeof(*c)); /* what is between the fields, too: conf_changes() */
	c->mode = 0666;
	c->group = (gid_t)-1;
	c->user.uid = RIGHTS_KEEP;
	c->ports = CONF_PORTS;
	c->log_level = LOG_LV_NOTE;
	for (unsigned q = 0; q < QUOTAS; q++)
		c->quota[q] = QUOTA_UNSET;
}

/* ---- what is wrong -------------------------------------------------------------------- */

/* Of the file that is being read.  Lines of one that it includes have no pass of their own. */
static struct {
	const char *path;
	unsigned n;
	int said;        /* up to this line the errors are known from the pass before */
	char last[1024]; /* what was said last: the end of a list is checked twice */
	unsigned quotas; /* sections of them, in this pass */
	int stumbled;    /* the parser gave up at this line, and may go on without it; 0: it did not */
} errors;

enum { PASSES_MAX = 50 }; /* each is over all of the text */

#define INCLUDES_MOST 10u /* files in files */

static bool in_main(const cfg_t *cfg) { return cfg && cfg->filename && !strcmp(cfg->filename, errors.path); }

static void say_stderr(const char *line) { fprintf(stderr, "%s\n", line); }

void (*conf_say)(const char *line) = say_stderr;

static void say(cfg_t *cfg, const char *fmt, va_list ap, const char *advice)
{
	char line[sizeof(errors.last)];
	size_t len = 0;

	errors.n++;
	if (in_main(cfg) && cfg->line <= errors.said)
		return;
	if (cfg && cfg->filename)
		len = (size_t)snprintf(line, sizeof(line), "%.512s:%d: ", cfg->filename, cfg->line);
	vsnprintf(line + len, sizeof(line) - len, fmt, ap);
	len = strlen(line);
	snprintf(line + len, sizeof(line) - len, "%s", advice);
	if (strcmp(line, errors.last) != 0)
		conf_say(line);
	memcpy(errors.last, line, sizeof(line));
}

int conf_wrong(cfg_t *cfg, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(cfg, fmt, ap, "");
	va_end(ap);
	return 0;
}

/* Errors that libconfuse itself finds: syntax, names, types. */
static void syntax_error(cfg_t *cfg, const char *fmt, va_list ap)
{
	bool over = in_main(cfg) && (strstr(fmt, "no such option") || strstr(fmt, "invalid"));

	errors.stumbled = over ? cfg->line : 0;
	say(cfg, fmt, ap, "; rdmad.conf(5) lists what can be there");
}

int conf_number(cfg_t *cfg, cfg_opt_t *opt, const char *text, void *number)
{
	const bool negative = *text == '-';
	uint64_t v;

	if (number_read(text + negative, &v) && v <= LONG_MAX) {
		*(long *)number = negative ? -(long)v : (long)v;
		return 0;
	}
	conf_wrong(
		cfg,
		"%s \"%s\" is no number, or too large; numbers look like 17 or 0x11, and rdmad.conf(5) lists what can "
		"be there",
		opt->name, text);
	errors.stumbled = in_main(cfg) ? cfg->line : 0;
	return -1;
}

/* ---- values -------------------------------------------------------------------------- */

static int check_socket(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if ((s[0] != '/' && s[0] != '@') || !s[1])
		return conf_wrong(
			cfg, "socket \"%s\" is no place; give an absolute path, or @NAME for an abstract socket", s);
	if (strlen(s) >= CONF_SOCKET_LEN)
		return conf_wrong(cfg, "socket is longer than %u characters; choose a shorter path",
				  CONF_SOCKET_LEN - 1);
	return 0;
}

static bool mode_parse(const char *s, mode_t *mode)
{
	char *end;
	unsigned long m = strtoul(s, &end, 8);

	*mode = (mode_t)m;
	return isdigit((unsigned char)s[0]) && !*end && m <= 0777;
}

static int check_mode(cfg_t *cfg, cfg_opt_t *opt)
{
	mode_t mode;

	if (!mode_parse(cfg_opt_getnstr(opt, 0), &mode))
		return conf_wrong(cfg, "socket-mode \"%s\" is no mode; give octal digits, such as \"0660\"",
				  cfg_opt_getnstr(opt, 0));
	return 0;
}

static bool number_parse(const char *s, unsigned *n)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	*n = (unsigned)v;
	return isdigit((unsigned char)s[0]) && !*end && v < UINT32_MAX;
}

static bool group_parse(const char *s, gid_t *gid)
{
	struct group *g;

	if (number_parse(s, gid))
		return true;
	g = getgrnam(s);
	if (g)
		*gid = g->gr_gid;
	return g;
}

static int check_group(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);
	gid_t gid;

	if (!group_parse(s, &gid))
		return conf_wrong(cfg, "there is no group \"%s\"; create it (groupadd), or give a number", s);
	return 0;
}

static bool user_parse(const char *s, uid_t *uid)
{
	struct passwd *p;

	if (number_parse(s, uid))
		return true;
	p = getpwnam(s);
	if (p)
		*uid = p->pw_uid;
	return p;
}

static int check_users(cfg_t *cfg, cfg_opt_t *opt)
{
	unsigned n = cfg_opt_size(opt);
	uid_t uid;

	if (n > CONF_USERS)
		return conf_wrong(cfg, "more than %u users; use socket-group and socket-mode for a group of users",
				  CONF_USERS);
	if (n && !user_parse(cfg_opt_getnstr(opt, n - 1), &uid))
		return conf_wrong(cfg, "there is no user \"%s\"; create the account, or give a number",
				  cfg_opt_getnstr(opt, n - 1));
	return 0;
}

/* By number it has no group but its own number's. */
static bool account_parse(const char *s, struct rights_user *u)
{
	const struct passwd *p = getpwnam(s);

	u->asked = u->alone = true;
	if (!p && !number_parse(s, &u->uid))
		return false;
	if (p)
		u->uid = p->pw_uid;
	u->gid = p ? p->pw_gid : u->uid;
	return true;
}

static int check_user(cfg_t *cfg, cfg_opt_t *opt)
{
	struct rights_user u;
	const char *s = cfg_opt_getnstr(opt, 0);

	if (!account_parse(s, &u))
		return conf_wrong(cfg, "there is no user \"%s\"; create the account, or give a number", s);
	return 0;
}

static int check_io(cfg_t *cfg, cfg_opt_t *opt)
{
	enum io_kind io;

	if (!conf_io_parse(cfg_opt_getnstr(opt, 0), &io))
		return conf_wrong(cfg, "io \"%s\" is unknown; give auto, uring or epoll", cfg_opt_getnstr(opt, 0));
	return 0;
}

static int check_shards(cfg_t *cfg, cfg_opt_t *opt)
{
	long n = cfg_opt_getnint(opt, 0);

	if (n < 0 || n > (long)SHARDS_MAX)
		return conf_wrong(cfg, "shards is %ld; give 1 to %u, or 0 to have it chosen", n, SHARDS_MAX);
	return 0;
}

static int check_rcvbuf(cfg_t *cfg, cfg_opt_t *opt)
{
	long n = cfg_opt_getnint(opt, 0);

	if (n && (n < (long)CONF_RCVBUF_MIN || n > (long)CONF_RCVBUF_MAX))
		return conf_wrong(cfg, "receive-buffer is %ld; give %u to %u bytes, or 0 for as much as is allowed", n,
				  CONF_RCVBUF_MIN, CONF_RCVBUF_MAX);
	return 0;
}

static int check_ports(cfg_t *cfg, cfg_opt_t *opt)
{
	long n = cfg_opt_getnint(opt, 0);

	if (n < 0 || n > (long)CONF_PORTS_MAX)
		return conf_wrong(cfg, "source-ports is %ld; give 1 to %u, or 0 for port 4791 alone", n,
				  CONF_PORTS_MAX);
	return 0;
}

/* The ECN field that it means. */
static bool ecn_parse(const char *s, uint8_t *ect)
{
	static const char *const names[] = { "no", "ect1", "ect0" };

	for (uint8_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(s, names[i])) {
			*ect = i;
			return true;
		}
	}
	return false;
}

static int check_ecn(cfg_t *cfg, cfg_opt_t *opt)
{
	uint8_t ect;

	if (!ecn_parse(cfg_opt_getnstr(opt, 0), &ect))
		return conf_wrong(cfg, "ecn \"%s\" is unknown; give no, ect0 or ect1", cfg_opt_getnstr(opt, 0));
	return 0;
}

static int check_by_sl(cfg_t *cfg, cfg_opt_t *opt, long most)
{
	unsigned n = cfg_opt_size(opt);
	long v = n ? cfg_opt_getnint(opt, n - 1) : 0;

	if (n > SLS)
		return conf_wrong(cfg, "%s has more than %u numbers; give one for each service level", opt->name, SLS);
	if (v < 0 || v > most)
		return conf_wrong(cfg, "%s has %ld; give numbers from 0 to %ld", opt->name, v, most);
	return 0;
}

static int check_tclasses(cfg_t *cfg, cfg_opt_t *opt) { return check_by_sl(cfg, opt, 255); }
static int check_priorities(cfg_t *cfg, cfg_opt_t *opt) { return check_by_sl(cfg, opt, CONF_PRIO_MAX); }

static void by_sl_take(uint8_t v[SLS], cfg_t *cfg, const char *key)
{
	for (unsigned i = 0; i < cfg_size(cfg, key); i++)
		v[i] = (uint8_t)cfg_getnint(cfg, key, i);
}

static int check_level(cfg_t *cfg, cfg_opt_t *opt)
{
	enum log_level level;

	if (!log_level_parse(cfg_opt_getnstr(opt, 0), &level))
		return conf_wrong(cfg, "log-level \"%s\" is unknown; give error, warning, notice, info or debug",
				  cfg_opt_getnstr(opt, 0));
	return 0;
}

static int check_impair(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (s[0] != '/' || strlen(s) >= sizeof(((struct conf *)0)->impair))
		return conf_wrong(cfg, "fault \"%s\" is no file of rules; give its absolute path", s);
	return 0;
}

/* Runs when the section is complete. */
static int check_quota(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *sec = cfg_opt_getnsec(opt, 0);

	if (errors.quotas++)
		return conf_wrong(cfg,
				  "a second section quota: nothing of the first one would be in force; make them one");
	for (unsigned q = 0; q < QUOTAS; q++)
		if (cfg_size(sec, quota_key(q)) && cfg_getint(sec, quota_key(q)) < 0)
			return conf_wrong(cfg, "quota %s is %ld; give a number, or 0 for no limit but what there is",
					  quota_key(q), cfg_getint(sec, quota_key(q)));
	return 0;
}

/* ---- the file --------------------------------------------------------------------------- */

/* A relative path begins where the file is that names it. */
static void beside(const char *of, const char *path, char *to, size_t len)
{
	const char *slash = of ? strrchr(of, '/') : NULL;
	bool in = slash && *path != '/' && strncmp(of, "/dev/", 5) != 0;

	snprintf(to, len, "%.*s%s", in ? (int)(slash - of + 1) : 0, of ? of : "", path);
}

/* All of a file that cfg includes, NULL: that is read.  NULL: the reason has been said. */
static char *text_read(cfg_t *cfg, const char *path)
{
	char *text = conf_text_read(path);

	if (!text && errno == EILSEQ)
		conf_wrong(cfg, "%s: is no text, it has NUL bytes; it may have been damaged: write it anew", path);
	else if (!text)
		conf_wrong(cfg, "%s: cannot be read: %s; check its name, and who may read it", path, strerror(errno));
	else
		conf_text_plain(text);
	return text;
}

static bool is_whole(const char *path, char *text, bool sections)
{
	int line;
	const char *open = conf_text_open(text, sections, &line);

	if (open)
		conf_wrong(NULL, "%s:%d: %s", path, line, open);
	return !open;
}

/* Of two values libconfuse takes the second one, and says nothing. */
static bool is_once(const char *path, char *text)
{
	struct conf_text_twice t = { 0 };

	while (conf_text_twice(text, &t))
		conf_wrong(NULL, "%s:%d: %.*s is set a second time, after line %d; leave one of them", path, t.again,
			   t.len, t.key, t.first);
	return !t.key;
}

static bool parse(cfg_t *cfg, const char *path, char *text)
{
	FILE *f;
	int err;

	if (!is_whole(path, text, false))
		return false;
	f = fmemopen(text, strlen(text), "r");
	if (!f) {
		conf_wrong(NULL, "no memory to read %s", path);
		return false;
	}
	err = cfg_parse_fp(cfg, f);
	fclose(f);
	return err == CFG_SUCCESS && is_whole(path, text, true) && is_once(path, text);
}

/*
 * libconfuse's own cfg_include() looks for a relative path where the daemon runs, and after an error in the file leaves it open, to
 * be read on with the next SIGHUP.  And its scanner ends the process if it cannot read, as a directory.
 */
static int include(cfg_t *cfg, cfg_opt_t *, int argc, const char **argv)
{
	static unsigned depth;
	const int line = cfg->line;
	char *const from = cfg->filename, path[PATH_MAX];
	char *text;
	bool good;

	if (argc != 1 || !*argv[0]) {
		conf_wrong(cfg, "include has %d files; give one: include(\"FILE\")", argc);
		return -1;
	}
	beside(from, argv[0], path, sizeof(path));
	if (depth == INCLUDES_MOST) {
		conf_wrong(cfg, "include \"%s\": files include each other %u deep; take one out", path, depth);
		return -1;
	}
	text = text_read(cfg, path);
	if (!text)
		return -1;
	depth++;
	cfg->filename = path;
	good = parse(cfg, path, text);
	cfg->filename = from;
	cfg->line = line;
	depth--;
	free(text);
	return good ? 0 : -1;
}

static cfg_opt_t quota_opts[] = {
#define QUOTA(name, unit, most, key, err, text) CONF_INT(key),
#include "quota.def"
#undef QUOTA
	CFG_END()
};

#define OPT_STR(key)     CFG_STR(key, NULL, CFGF_NODEFAULT),
#define OPT_INT(key)     CFG_INT_CB(key, 0, CFGF_NONE, conf_number),
#define OPT_NUM(key)     CONF_INT(key),
#define OPT_LIST(key)    CFG_STR_LIST(key, NULL, CFGF_NODEFAULT),
#define OPT_INTS(key)    CONF_INTS(key),
#define OPT_QUOTA(key)   CFG_SEC(key, quota_opts, CFGF_NODEFAULT),
#define OPT_PROFILE(key) CFG_SEC(key, conf_profile_opts, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
#define OPT_DEVICE(key)  CFG_SEC(key, conf_device_opts, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),

static cfg_opt_t opts[] = {
#define KEY(kind, key, check, field, when) OPT_##kind(key)
#include "conf.def"
#undef KEY
	CFG_FUNC("include", include), CFG_END()
};

static void checks_set(cfg_t *cfg)
{
#define KEY(kind, key, check, field, when) cfg_set_validate_func(cfg, key, check);
#include "conf.def"
#undef KEY
	conf_profile_checks(cfg);
	conf_device_checks(cfg);
}

void conf_changes(const struct conf *a, const struct conf *b, void (*each)(const char *key, bool now))
{
	enum { START, NOW };
	static const struct {
		const char *key;
		size_t at, len;
		bool now;
	} rows[] = {
#define KEY(kind, key, check, field, when) { key, offsetof(struct conf, field), sizeof(a->field), when },
#include "conf.def"
#undef KEY
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (memcmp((const char *)a + rows[i].at, (const char *)b + rows[i].at, rows[i].len) != 0)
			each(rows[i].key, rows[i].now);
}

static void conf_take(struct conf *c, cfg_t *cfg)
{
	const char *s;

	if ((s = cfg_getstr(cfg, "socket")))
		snprintf(c->socket, sizeof(c->socket), "%s", s);
	if ((s = cfg_getstr(cfg, "socket-mode")))
		mode_parse(s, &c->mode);
	if ((s = cfg_getstr(cfg, "socket-group")))
		group_parse(s, &c->group);
	c->users.n = cfg_size(cfg, "users");
	for (unsigned i = 0; i < c->users.n; i++)
		user_parse(cfg_getnstr(cfg, "users", i), &c->users.uid[i]);
	if ((s = cfg_getstr(cfg, "user")))
		account_parse(s, &c->user);
	if ((s = cfg_getstr(cfg, "io")))
		conf_io_parse(s, &c->io);
	c->shards = (unsigned)cfg_getint(cfg, "shards");
	c->rcvbuf = (uint32_t)cfg_getint(cfg, "receive-buffer");
	if (cfg_size(cfg, "source-ports"))
		c->ports = (unsigned)cfg_getint(cfg, "source-ports");
	if ((s = cfg_getstr(cfg, "ecn")))
		ecn_parse(s, &c->marks.ect);
	by_sl_take(c->marks.tclass, cfg, "traffic-classes");
	by_sl_take(c->marks.priority, cfg, "priorities");
	for (unsigned sl = 0; sl < SLS; sl++)
		c->marks.prioritized |= c->marks.priority[sl] != 0;
	if ((s = cfg_getstr(cfg, "log-level")))
		log_level_parse(s, &c->log_level);
	if ((s = cfg_getstr(cfg, "fault")))
		snprintf(c->impair, sizeof(c->impair), "%s", s);
	if (cfg_size(cfg, "quota"))
		for (unsigned q = 0; q < QUOTAS; q++)
			if (cfg_size(cfg_getsec(cfg, "quota"), quota_key(q)))
				c->quota[q] = (uint64_t)cfg_getint(cfg_getsec(cfg, "quota"), quota_key(q));
	conf_profiles_take(c);
	c->device.n = cfg_size(cfg, "device");
	for (unsigned i = 0; i < c->device.n; i++)
		conf_device_take(&c->device.v[i], cfg_getnsec(cfg, "device", i));
	conf_devices_settle(c);
}

/* Once over the text. */
static void pass(struct conf *c, const char *path, char *text)
{
	cfg_t *cfg = cfg_init(opts, CFGF_NONE);

	cfg_set_error_function(cfg, syntax_error);
	checks_set(cfg);
	cfg->filename = strdup(path);
	conf_profiles_begin();
	errors.stumbled = 0;
	errors.quotas = 0;
	if (!cfg->filename)
		conf_wrong(NULL, "no memory to read %s", path);
	else if (parse(cfg, path, text) && !errors.n)
		conf_take(c, cfg);
	else if (!errors.n)
		conf_wrong(NULL, "%s: cannot be understood", path);
	cfg_free(cfg);
}

bool conf_read(struct conf *c, const char *path)
{
	unsigned passes = 0;
	char *text;

	memset(&errors, 0, sizeof(errors));
	errors.path = path;
	text = path ? text_read(NULL, path) : NULL;
	while (text) {
		pass(c, path, text);
		if (!errors.stumbled || !conf_text_blank(text, errors.stumbled))
			break;
		if (++passes == PASSES_MAX) {
			conf_wrong(NULL, "%s: has more errors than these; mend them first", path);
			break;
		}
		errors.said = errors.stumbled;
		conf_text_plain(text); /* a quote went with the line, and a string was a comment */
	}
	free(text);
	if (!c->device.n) {
		c->device.n = 1;
		snprintf(c->device.v[0].name, sizeof(c->device.v[0].name), "rdmad0");
		snprintf(c->device.v[0].profile, sizeof(c->device.v[0].profile), PROFILE_OWN);
		c->device.v[0].numa = -1;
	}
	return !errors.n;
}
