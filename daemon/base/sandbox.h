/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - what a daemon cannot do any more when it serves, whatever a packet or a client makes of it.
 *
 *	sandbox_files()	before there are threads	no program gains rights by being run (no_new_privs), few files (Landlock)
 *	sandbox_calls()	when all is set up		the system calls of calls.def, in all threads (seccomp)
 *
 * Where the kernel has something of this not, a line in the log says so, and the daemon serves without: it is there for its
 * users' sake.  Builds with a sanitizer have no sandbox, as their runtimes do what it forbids.  Control thread.
 */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include <stdbool.h>

/*
 * own: a daemon for one user, that reaches its programs by process_vm_readv.  That is tracing, which Landlock forbids: so it
 * keeps its files.  dir: where its socket is removed at the end; NULL: nowhere.
 */
void sandbox_files(bool own, const char *dir);
void sandbox_calls(bool own);

#endif
