/* SPDX-License-Identifier: MIT */
/*
 * run.h - the rooms of rdmad-run: where things are (install), the daemon (hold), the program (prog), its parent (watch,
 * report).
 *
 * rdmad-run becomes the program: it execs it in its own process.  So the exit status, signals, job
 * control and the process id are the program's without any forwarding.  Only if there is something to do after its
 * end (watch.h) it is a child.  A private daemon is kept alive by
 * an open connection that the program and its children inherit.
 */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#define RUN_TIMED_OUT      124 /* --timeout */
#define RUN_FAILED         125 /* exit statuses as env(1), timeout(1) and the shells have them */
#define RUN_NOT_EXECUTABLE 126
#define RUN_NOT_FOUND      127

#define RUN_CAPTURE_ARGS 6u

#define HOLD_FD_MIN 200 /* inherited ones are above those that shell scripts and programs count on */

#define ADDR_LEN (sizeof(((struct sockaddr_un *)0)->sun_path))

enum sysfs { SYSFS_NO, SYSFS_AUTO, SYSFS_NAMESPACE, SYSFS_PRELOAD };
extern const char *const sysfs_ways[]; /* as --sysfs= has them */

#define NODES_MOST 64u /* of the machine; those behind them have no rail */

struct options {
	const char *socket;      /* --socket or $RDMAD_SOCKET; NULL: the usual addresses */
	const char *socket_from; /* where it comes from, for messages */
	const char *log;         /* file for a private daemon's messages; NULL: none once it runs */
	bool own, rsockets;
	enum sysfs sysfs;          /* AUTO: what the machine allows, and then that */
	const char *own_addr;      /* --own=ADDRESS, or NULL */
	const char *profile;       /* --as: of all devices, or NULL */
	char *profile_file;        /* where it is; NULL: it is one of rdmad's */
	unsigned ports;            /* of the profile's adapter; 0: a file says it */
	unsigned rails;            /* --rails: so many devices; 0: as many as there are ports */
	unsigned nodes;            /* over so many NUMA nodes; 0: those of the machine */
	unsigned node[NODES_MOST]; /* their numbers */
	bool spare;                /* rails are the ports of the profile, which may be fewer */
	unsigned hosts, host;      /* --hosts, 0: one; which one this is */
	uint32_t *addr;            /* of each rail of each host */
	const char *users;         /* --users: names or numbers, with commas between; or NULL */
	char **daemon_args;
	unsigned daemon_arg_n;
	int64_t timeout_ms;  /* 0: none */
	int64_t grace_ms;    /* for children that outlive the program; below 0: they are left alone */
	const char *lesson;  /* --lesson: its name, or NULL */
	const char *report;  /* directory, or NULL */
	const char *capture; /* file, or NULL */
	const char *capture_args[RUN_CAPTURE_ARGS]; /* for rdmactl capture */
	unsigned capture_arg_n;
	const char *record; /* file, or NULL */
	const char *replay; /* file, or NULL */
	const char *impair; /* --fault: a file of rules, or NULL */
	bool seeded;        /* use this seed instead of that of the file */
	uint64_t seed;
	const char *bare; /* the last option, if it may have a value and has none; else NULL */
	bool leaks;
	bool check;
	int check_status;       /* instead of 0, if something was found; 0: as it is */
	const char *check_log;  /* where findings go besides; NULL: nowhere */
	const char *trace;      /* --trace: which calls, or NULL */
	const char *trace_file; /* or NULL: standard error */
	bool explain;
	struct {
		const char *faults; /* --sweep: a list, or NULL */
		unsigned jobs;      /* 0: as many as there are CPUs */
		unsigned limit;     /* cases at most */
		unsigned pairs;     /* of faults */
		double slow;        /* times the clean run */
		bool same_output;
		const char *odd; /* the first option that is for --sweep only, or NULL */
	} sweep;
	int leak_status; /* instead of 0, if something was left */
	uint64_t
		run; /* our number, in the program's environment: the daemon's objects that have it are ours; 0: none */
};

/* False for --env.  The program begins at optind.  What cannot be is said, and ends this process. */
bool options_parse(struct options *, int argc, char **argv);
/* Is there something to do after the program's end (watch.h)? */
bool is_watched(const struct options *);

struct install {
	char lib_dir[PATH_MAX];  /* holds libibverbs.so.1 */
	char cm_dir[PATH_MAX];   /* holds librdmacm.so.1; empty: lib_dir does */
	char rs_lib[PATH_MAX];   /* librspreload.so; empty: not there */
	char tree_lib[PATH_MAX]; /* librdmad-tree.so; empty: not there */
	char call_lib[PATH_MAX]; /* librdmad-calls.so; empty: not there */
	char lab_dir[PATH_MAX];  /* the lessons */
	char lesson[PATH_MAX];   /* their program */
	char tool_dir[PATH_MAX]; /* holds rdma */
	char ctl[PATH_MAX];      /* rdmactl */
	char daemon[PATH_MAX];   /* the rdmad that belongs to this rdmad-run */
};

/* False: said what is missing. */
bool install_find(struct install *);

/* Can this library of an option, of that name, be preloaded?  False: said why not. */
bool preload_can(const char *option, const char *lib, const char *name);

/* LD_LIBRARY_PATH and LD_PRELOAD as the program needs them: set here, or printed for a shell. */
void env_set(const struct install *, const struct options *, const char *socket, const char *program);
bool env_print(const struct install *, const struct options *); /* false: said why not */

/*
 * A connection that holds the daemon, close-on-exec not set, and in addr where that daemon is.  Starts a
 * private one if none answers.  -1: said why.
 */
int hold_get(const struct options *, const struct install *, char addr[ADDR_LEN]);
/* The name of a socket as a program finds it that has gone to another directory; as it is if it is too long then. */
const char *hold_address(const char *name);
/* The program may be in another directory when it writes: an absolute path. NULL: no memory. */
char *path_absolute(const char *path);

/* --as: NAME or NAME:FILE, which is cut in two; false: said why. */
bool own_profile(struct options *, char *name);
/* --users: false: said why not. */
bool own_users(const struct options *);
/* --rails: chooses the addresses of all hosts. */
void own_rails(struct options *);
/* The configuration of --own's daemon, as a file to read from; -1: errno, EFBIG: it cannot be written.  Addresses that no other daemon has. */
int own_config(const struct options *);

/*
 * --hosts: returns in a process for each, with its number in opt->host, and files of its own to write to.  Their parent waits and ends
 * with the status of the first that has one but 0.
 */
void hosts_split(struct options *);
/* The variables that tell a program of rails and hosts.  addr: where this host's daemon is.  False: said why not. */
bool hosts_env(const struct options *, const char *addr);

/* Another connection to that daemon, close-on-exec, which does not hold it.  -1: said why. */
int hold_look(const char *addr);
/* Another descriptor of the same for the program to inherit: at least HOLD_FD_MIN, if there may be so many. */
int hold_dup(int fd);

/* --fault, on the connection that holds the daemon: the rules go with it.  False: said why. */
bool impair_file(int hold, const struct options *);
/* The same of a text; name: for messages. */
bool impair_text(int hold, const struct options *, const char *name, const char *text);

/* A dump of the daemon (MSG_DUMP), on a connection of hold_look(); NULL: nothing that we understand. */
struct json_t *hold_dump(int fd, uint32_t what);

/* Becomes the lesson of that name; dir: where its results go, or NULL.  Returns RUN_FAILED: said why. */
int lesson_become(const struct install *, const char *name, char *dir);

/* --check, --trace: the environment of librdmad-calls.so, and a place for findings.  False: said why. */
bool check_prepare(const struct install *, struct options *);
/* The program has ended: was something found?  Then that is passed on to a rdmad-run around us. */
bool check_found(const struct options *);
void check_end(const struct options *);

/*
 * 0, RUN_NOT_FOUND or RUN_NOT_EXECUTABLE (said why).  Warns if the program cannot be given our library.  bare: of options, or
 * NULL; what was taken for the program may have been meant as its value.
 */
int prog_check(const char *name, const char *bare);
/* Does not return, but with one of these, said why, if that cannot be. */
int prog_become(char **argv);
/* From here on a file that may not grow (ulimit -f) is an error, EFBIG, and not a signal that ends us; the program has it as it was. */
void prog_sizes(void);
#define PROG_LIB_LEN 64
/* The run-time library of a sanitizer that the program needs: it has to be loaded before all others. */
bool prog_runtime(const char *program, char name[PROG_LIB_LEN]);
/* Does it need libpci, as perftest does?  That ends a program where there is no PCI bus, be it an empty one. */
bool prog_pci(const char *program);

#endif
