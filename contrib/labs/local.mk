# SPDX-License-Identifier: MIT
# The lessons of rdmad-run --lesson: their program beside the libraries, texts, faults and pictures in the data directory.
lessondir = $(pkglibdir)
lesson_PROGRAMS = contrib/labs/rdmad-lesson
contrib_labs_rdmad_lesson_SOURCES = \
	contrib/labs/lesson.c \
	contrib/labs/lesson.h \
	contrib/labs/lesson_cm.c \
	contrib/labs/lesson_pair.c
contrib_labs_rdmad_lesson_LDADD = -libverbs -lrdmacm -lpthread

LAB_FILES = \
	contrib/labs/bad-rkey.svg \
	contrib/labs/bad-rkey.txt \
	contrib/labs/cm.svg \
	contrib/labs/cm.txt \
	contrib/labs/lost-ack.svg \
	contrib/labs/lost-ack.txt \
	contrib/labs/lost-ack.yaml \
	contrib/labs/lost-packet.svg \
	contrib/labs/lost-packet.txt \
	contrib/labs/lost-packet.yaml \
	contrib/labs/overrun.svg \
	contrib/labs/overrun.txt \
	contrib/labs/psn-wrap.svg \
	contrib/labs/psn-wrap.txt \
	contrib/labs/psn-wrap.yaml \
	contrib/labs/read-middle.svg \
	contrib/labs/read-middle.txt \
	contrib/labs/read-middle.yaml \
	contrib/labs/retry.svg \
	contrib/labs/retry.txt \
	contrib/labs/retry.yaml \
	contrib/labs/rnr.svg \
	contrib/labs/rnr.txt \
	contrib/labs/uc-rc.svg \
	contrib/labs/uc-rc.txt \
	contrib/labs/uc-rc.yaml
labsdir = $(pkgdatadir)/labs
dist_labs_DATA = $(LAB_FILES)
EXTRA_DIST += contrib/labs/README.md
dist_labs_SCRIPTS = contrib/labs/lesson.sh

# rdmad-run finds them beside itself in a build directory, too. (Not $(LAB_FILES): make would find the copies.)
noinst_DATA = contrib/labs/copied
contrib/labs/copied: $(LAB_FILES:%=$(srcdir)/%) $(srcdir)/contrib/labs/lesson.sh
	$(AM_V_GEN)$(MKDIR_P) contrib/labs && \
	for f in $(LAB_FILES) contrib/labs/lesson.sh; do \
		test "$(srcdir)/$$f" -ef "$$f" || cp "$(srcdir)/$$f" "$$f" || exit 1; \
	done && touch $@
clean-local:
	rm -f contrib/labs/copied
	test "$(srcdir)" -ef . || rm -f $(LAB_FILES) contrib/labs/lesson.sh
