# SPDX-License-Identifier: MIT
EXTRA_DIST += \
	.ci/run \
	contrib/arch/PKGBUILD \
	contrib/action/action.yml \
	contrib/action/rdmad-ci \
	contrib/check \
	contrib/conformance \
	contrib/container/Containerfile \
	contrib/container/README.md \
	contrib/installed \
	contrib/kubernetes/README.md \
	contrib/kubernetes/device-plugin.yaml \
	contrib/kubernetes/node \
	contrib/kubernetes/pod.yaml \
	contrib/kubernetes/rdmad.yaml \
	contrib/nix/default.nix \
	contrib/package-test \
	contrib/packages \
	contrib/pytest-rdmad/README.md \
	contrib/pytest-rdmad/pyproject.toml \
	contrib/pytest-rdmad/pytest_rdmad.py \
	contrib/pytest-rdmad/test_example.py \
	contrib/quickstart \
	contrib/recipe-test \
	contrib/rdmad.conf \
	contrib/rpm/rdmad.spec \
	contrib/setup \
	contrib/systemd/rdmad.service \
	contrib/tally \
	contrib/timed \
	contrib/wireshark/colorfilters
wiresharkdir = $(pkgdatadir)/wireshark
wireshark_DATA = contrib/wireshark/colorfilters
bin_SCRIPTS += contrib/action/rdmad-ci
exampledir = $(docdir)/examples
example_DATA = contrib/rdmad.conf
fabricdir = $(docdir)/examples/fabric
dist_fabric_DATA = contrib/fabric/allreduce.yaml contrib/fabric/dcqcn.yaml contrib/fabric/fair.yaml contrib/fabric/fluid.gp \
	contrib/fabric/incast.yaml contrib/fabric/permutation.yaml
dist_fabric_SCRIPTS = contrib/fabric/fluid
noinst_PROGRAMS += contrib/bench-ref
contrib_bench_ref_SOURCES = contrib/bench-ref.c contrib/bench-ref-gso.c contrib/bench-ref.h
contrib_bench_ref_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir)
contrib_bench_ref_LDADD = libproto.a $(ISAL_LIBS)
noinst_PROGRAMS += contrib/bench-many
contrib_bench_many_SOURCES = contrib/bench-many.c
contrib_bench_many_CPPFLAGS = -D_GNU_SOURCE
contrib_bench_many_LDADD = -libverbs
EXTRA_DIST += contrib/bench contrib/bench_apps.py contrib/bench_loss.py contrib/bench-mpi.c
EXTRA_DIST += \
	debian/changelog \
	debian/control \
	debian/copyright \
	debian/librdmad-verbs.install \
	debian/librdmad-verbs.lintian-overrides \
	debian/not-installed \
	debian/rdmad-dev.install \
	debian/rdmad-doc.install \
	debian/rdmad.install \
	debian/rules \
	debian/source/format \
	debian/tests/control \
	debian/tests/pingpong
