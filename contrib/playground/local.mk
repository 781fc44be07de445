# SPDX-License-Identifier: MIT
# The playground: core, rules and simulator in WebAssembly, and the page around it.
play_sources = \
	contrib/playground/play.c \
	contrib/playground/play_api.c \
	contrib/playground/play_cm.c \
	contrib/playground/play_json.c \
	contrib/playground/play_wire.c \
	contrib/playground/shim/yaml.c
play_headers = \
	contrib/playground/fields.def \
	contrib/playground/play.h \
	contrib/playground/shim/isa-l/crc.h \
	contrib/playground/shim/yaml.h
play_page = \
	contrib/playground/bundle.sh \
	contrib/playground/core.js \
	contrib/playground/ladder.js \
	contrib/playground/packet.js \
	contrib/playground/page.css \
	contrib/playground/page.html \
	contrib/playground/panels.js \
	contrib/playground/predict.js \
	contrib/playground/tours.js \
	contrib/playground/ui.js
EXTRA_DIST += $(play_sources) $(play_headers) $(play_page) contrib/playground/playground.png contrib/playground/README.md

if PLAYGROUND
# One call of the compiler: that is as fast as many, and nothing else of the build is for this machine's eyes.  The shim has what
# is in rule_yaml_bound.c.
contrib/playground/play.wasm: $(libproto_a_SOURCES) $(liblab_a_SOURCES) $(sim_sources) $(play_sources) $(play_headers) $(noinst_HEADERS)
	$(AM_V_GEN)$(MKDIR_P) contrib/playground && \
	$(WASM_CC) $(WASM_CFLAGS) -I$(srcdir)/contrib/playground/shim -I$(srcdir) -I$(srcdir)/include \
		$(filter-out %/rule_yaml_bound.c,$(filter %.c,$^)) $(WASM_LIBS) -o $@
contrib/playground/playground.html: contrib/playground/play.wasm $(play_page) $(LAB_FILES:%=$(srcdir)/%) ctl/page/picture.css ctl/page/svg.js
	$(AM_V_GEN)$(srcdir)/contrib/playground/bundle.sh $(srcdir) contrib/playground/play.wasm >$@.tmp && mv $@.tmp $@
nodist_doc_DATA = contrib/playground/playground.html
CLEANFILES += contrib/playground/play.wasm contrib/playground/playground.html contrib/playground/playground.html.tmp
endif
