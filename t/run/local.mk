# SPDX-License-Identifier: MIT
check_PROGRAMS += t/run/bugs t/run/confined t/run/fake t/run/files t/run/hang t/run/leaky t/run/misuse t/run/stopped t/run/swept
TESTS += t/run/stopped
noinst_HEADERS += t/proc_state.h t/run/need.h
t_run_bugs_SOURCES = t/run/bugs.c
t_run_bugs_LDADD = -lrdmacm -libverbs
t_run_confined_SOURCES = t/run/confined.c
t_run_confined_LDADD = $(SECCOMP_LIBS)
t_run_fake_SOURCES = t/run/fake.c
t_run_files_SOURCES = t/run/files.c
t_run_files_LDADD = -ldl -lpthread
t_run_hang_SOURCES = t/run/hang.c
t_run_hang_LDADD = -lrdmacm -libverbs
t_run_leaky_SOURCES = t/run/leaky.c
t_run_leaky_LDADD = -libverbs
t_run_misuse_SOURCES = t/run/misuse.c
t_run_misuse_LDADD = -libverbs -ldl -lpthread
t_run_stopped_SOURCES = t/run/stopped.c
t_run_stopped_LDADD = $(CHECK_LIBS)
t_run_swept_SOURCES = t/run/swept.c
t_run_swept_LDADD = -lrdmacm -libverbs
RUN_TESTS = \
	t/run/action.test \
	t/run/bugs.test \
	t/run/cdi.test \
	t/run/completion.test \
	t/run/lesson.test \
	t/run/lid.test \
	t/run/explain.test \
	t/run/hang.test \
	t/run/kubernetes.test \
	t/run/profile.test \
	t/run/pytest.test \
	t/run/rails.test \
	t/run/real.test \
	t/run/run.test \
	t/run/sanitize.test \
	t/run/status.test \
	t/run/users.test \
	t/run/sweep.test \
	t/run/sysfs.test \
	t/run/tape.test \
	t/run/trace.test \
	t/run/watch.test
dist_check_SCRIPTS += $(RUN_TESTS)
TESTS += $(RUN_TESTS)
EXTRA_DIST += t/run/action.py t/run/cdi.py t/run/kubernetes.py t/run/lesson.py t/run/lib.sh t/run/profile.dumps t/run/profile.py t/run/profile_peer.py
