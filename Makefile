# Millrace.  `make help` lists the targets.  All output goes to build/.
#
# CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS are the user's: they are added to ours, which begin with MR_.
#
#     make CFLAGS=-O3                    after our flags, so that it wins
#     make WERROR=1                      warnings are errors, as in `make check` and .ci/run
#     make install DESTDIR=root PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu

CC      ?= gcc
VERSION := 0.1.0
PYTHON  ?= /usr/bin/python3
PKG_CONFIG ?= pkg-config
NODE    ?= node
NPM     ?= npm
INSTALL ?= install
STRIP   ?= strip
SAN     ?=
V       ?= 0
.DEFAULT_GOAL := all

ifeq ($(origin CC),default)
CC := gcc
endif

# Where `make install` puts things, below DESTDIR.
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
PYTHONDIR  := $(PREFIX)/share/millrace/python

# Each compiler and sanitizer has its own folder of objects, so that `make check` throws nothing away.
comma   := ,
VARIANT := $(notdir $(lastword $(CC)))$(if $(SAN),-$(subst $(comma),-,$(SAN)))
B       := build/$(VARIANT)
G       := build/gen
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)

# ---- flags --------------------------------------------------------------------------------------
CFLAGS  ?= -g
STRICT  := -Wall -Wextra $(if $(filter-out 0 no,$(WERROR)),-Werror)
WARN    := $(STRICT) -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wpointer-arith -Wno-missing-field-initializers \
           -Wno-override-init $(if $(findstring clang,$(CC)),-Wthread-safety -Wno-initializer-overrides)
OPT     := -O2 $(if $(findstring clang,$(CC)),,-ftree-vectorize -fvect-cost-model=dynamic)
ifneq ($(SAN),)
OPT     := -O1 -DMR_DEBUG -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
# What makes a bug harder to exploit; sanitizers find it instead. HARDEN= turns it off. Of CET only the shadow stack:
# Linux has no branch tracking for programs, and its marks would be an instruction in every function.
ifeq ($(SAN),)
HARDEN  ?= -fstack-protector-strong -fstack-clash-protection \
           $(if $(filter x86_64-%,$(MACHINE)),-fcf-protection=return) \
           $(if $(findstring _FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif
MR_CPPFLAGS := -Isrc -Iinclude -I$(G) -I. -D_GNU_SOURCE
MR_CFLAGS   := -std=gnu11 $(OPT) $(HARDEN) $(WARN) -fPIC -fvisibility=hidden -fno-math-errno -fno-trapping-math \
               -ffp-contract=off -fno-strict-aliasing -pthread
MR_LDFLAGS  := -Wl,-z,relro,-z,now
MR_LIBS      = -ldnnl $(shell $(PKG_CONFIG) --libs-only-L libprotobuf-c zlib 2>/dev/null) -l:libprotobuf-c.a -l:libz.a \
               -lm -ldl -pthread

COMPILE = $(CC) $(MR_CPPFLAGS) $(CPPFLAGS) $(MR_CFLAGS) $(CFLAGS)
LINK    = $(CC) $(MR_CFLAGS) $(CFLAGS)
LIBS    = $(MR_LDFLAGS) $(LDFLAGS) $(MR_LIBS) $(LDLIBS)
# For programs that see the public headers alone; they find the library in lib/ of the folder above theirs.
CLIENT_CC   = $(CC) -Iinclude $(CPPFLAGS) -std=gnu11 -O2 $(STRICT) $(if $(SAN),-fsanitize=$(SAN)) -pthread $(CFLAGS)
CLIENT_LIBS = -L$(B)/lib -ltensorflow -Wl,-rpath,'$$ORIGIN/../lib' $(LDFLAGS) -lm $(LDLIBS)

# ---- sources ------------------------------------------------------------------------------------
PROTO   := $(wildcard proto/*.proto)
PB_C    := $(PROTO:proto/%.proto=$(G)/proto/%.pb-c.c)
PB_H    := $(PB_C:.c=.h)
ALL_C   := $(sort $(shell find src -name '*.c'))
SOURCES := $(filter-out %_test.c %_fixture.c,$(ALL_C))
TEST_C  := $(filter %_test.c %_fixture.c,$(ALL_C)) $(sort $(wildcard tests/harness/*.c))

# ---- plug-ins -----------------------------------------------------------------------------------
# A library that only some programs need is linked to a plug-in, libmillrace-NAME.so, which is opened when it is first
# needed. A plug-in consists of the sources in NAME.dir and copies of the files that these use (NAME.with), and exports
# the function NAME.entry. It is built where pkg-config knows all of NAME.pkg or, without that, where NAME.header is
# installed; NAME.lacks tells the user what is missing otherwise.
PLUGINS := net crypto zookeeper mpi opencl image icu board lapack
base     = $(patsubst %,src/base/%.c,$(1))

net.dir   := src/net/grpc
net.entry := mr_net_library_get
net.pkg   := grpc gpr libssl libcrypto
net.libs  := -lgrpc -lgpr -lssl -lcrypto
net.with  := $(patsubst %,src/net/%.c,message task_name keys listen_check) \
             $(call base,bytes clock file log memory status str thread vec writer)

crypto.dir   := src/fed/crypto
crypto.entry := mr_crypto_get
crypto.pkg   := libcrypto
crypto.libs  := -lcrypto
crypto.with  := $(call base,memory status str)

zookeeper.dir    := src/net/zookeeper
zookeeper.entry  := mr_naming_library_get
zookeeper.header := zookeeper/zookeeper.h
zookeeper.libs   := -lzookeeper_mt
zookeeper.with   := src/net/naming.c $(call base,clock log memory status str thread vec)
zookeeper.lacks  := no ZooKeeper: it needs the package libzookeeper-mt-dev

mpi.dir    := src/group/mpi
mpi.entry  := mr_mpi_library_get
mpi.pkg    := mpi-c
mpi.header := mpi.h openmpi/include/mpi.h
mpi.libs   := -lmpi
mpi.with   := $(call base,clock memory status str thread)
mpi.lacks  := no MPI: it needs the package libopenmpi-dev

opencl.dir    := src/exec/opencl/driver
opencl.entry  := mr_cl_driver_get
opencl.pkg    := OpenCL clblast
opencl.header := clblast_c.h
opencl.libs   := -lOpenCL -lclblast
opencl.with   := $(call base,clock log map memory siphash status str thread)
opencl.lacks  := no OpenCL: GPUs need the packages ocl-icd-opencl-dev, opencl-headers and libclblast-dev

image.dir    := src/ops/image/jpeg
image.entry  := mr_jpeg_get
image.pkg    := libjpeg
image.header := jpeglib.h
image.libs   := -ljpeg
image.with   := $(call base,memory status str)
image.lacks  := no JPEG: it needs the package libjpeg-dev

icu.dir    := src/ops/string/icu
icu.entry  := mr_icu_get
icu.pkg    := icu-uc
icu.header := unicode/ucnv.h
icu.libs   := -licuuc
icu.lacks  := no encodings but Unicode and some code pages: SHIFT-JIS and others need the package libicu-dev

board.dir    := src/board/http
board.entry  := mr_board_http_get
board.pkg    := libmicrohttpd
board.header := microhttpd.h
board.libs   := -lmicrohttpd
board.with   := $(call base,clock memory status str thread vec)
board.lacks  := no millrace board: it needs the package libmicrohttpd-dev

# LAPACK's routines are linked statically, without a BLAS or Fortran's library: src/ops/linalg/lapack has what they need.
lapack.dir    := src/ops/linalg/lapack
lapack.entry  := mr_lapack_get
lapack.header := liblapack_pic.a
lapack.libs   := -l:liblapack_pic.a -lm
lapack.lacks  := slower QR, eigenvalues and singular values: LAPACK needs the package liblapack-dev

# pkg-config gives the folders of headers and libraries. The names of the libraries are ours, because gRPC's file names a
# hundred, and each would become a dependency of the plug-in.
HEADER_DIRS := /usr/include /usr/local/include /usr/lib/$(subst -pc-,-,$(MACHINE))
is_known    = $(if $(1),$(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo yes))
find_header = $(firstword $(wildcard $(foreach d,$(HEADER_DIRS),$(addprefix $(d)/,$(1)))))
folder_of   = $(patsubst %,-isystem %,$(filter-out /usr/include%,$(patsubst %/,%,$(dir $(1)))))
includes_of = $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags-only-I $(1) 2>/dev/null))
folders_of  = $(if $(1),$(shell $(PKG_CONFIG) --libs-only-L $(1) 2>/dev/null))

define plugin # NAME
$(1).o     := $$(patsubst %.c,$$(B)/%.o,$$(filter $$($(1).dir)/%,$$(SOURCES)) $$($(1).with))
$(1).known := $$(call is_known,$$($(1).pkg))
$(1).found := $$(if $$($(1).known),,$$(call find_header,$$($(1).header)))
$(1).so    := $$(if $$($(1).known)$$($(1).found)$$(if $$($(1).header),,always),$$(B)/lib/libmillrace-$(1).so)
$(1).include = $$(if $$($(1).known),$$(call includes_of,$$($(1).pkg)),$$(call folder_of,$$($(1).found)))
$$(filter $$(B)/$$($(1).dir)/%,$$($(1).o)): MR_CPPFLAGS += $$($(1).include)
$$(B)/lib/libmillrace-$(1).so: $$($(1).o)
	$$(call say,LINK,$$@)
	@mkdir -p $$(@D)
	@echo '{ global: $$($(1).entry); local: *; };' > $$(B)/$(1).map
	$$(q)$$(LINK) -shared -Wl,-soname,$$(@F) $$(WHOLE) -Wl,--version-script=$$(B)/$(1).map -Wl,-z,nodelete \
	    -Wl,--gc-sections -o $$@ $$($(1).o) $$(MR_LDFLAGS) $$(LDFLAGS) $$(call folders_of,$$($(1).pkg)) $$($(1).libs) \
	    -pthread $$(LDLIBS)
endef
PLUGIN_DIRS := $(foreach p,$(PLUGINS),$($(p).dir)/%)

LIB_C   := $(filter-out src/cli/% $(PLUGIN_DIRS),$(SOURCES))
CLI_C   := $(filter src/cli/%,$(SOURCES))
LIB_O   := $(LIB_C:%.c=$(B)/%.o) $(PB_C:$(G)/%.c=$(B)/gen/%.o)
TEST_O  := $(TEST_C:%.c=$(B)/%.o)
CLI_O   := $(CLI_C:%.c=$(B)/%.o)

# The extension of Python, where an interpreter with its headers and numpy is. PYTHON itself is asked.
PY_INCLUDE := $(shell $(PYTHON) -c 'import sysconfig, numpy, os; d = sysconfig.get_path("include"); \
    os.path.exists(d + "/Python.h") and print("-isystem", d, "-isystem", numpy.get_include())' 2>/dev/null)
PY_C    := $(sort $(wildcard python/core/*.c))
PY_O    := $(PY_C:%.c=$(B)/%.o)
PY_DIR  := $(B)/share/millrace/python
PY_SO   := $(if $(PY_INCLUDE),$(PY_DIR)/_millrace.so)
PY_LACKS := it needs the packages python3-dev and python3-numpy for $(PYTHON)

SO      := $(B)/lib/libtensorflow.so.2
SO_NAMES := libtensorflow.so libtensorflow_framework.so libtensorflow_framework.so.2 libmillrace.so
LIBA    := $(B)/lib/libmillrace.a
UNIT    := $(B)/test
CLI     := $(B)/bin/millrace

# A library of our own that lacks something must fail here, not when it is opened; sanitizers bring their symbols at run time.
WHOLE := $(if $(SAN),,-Wl,-z,defs)

q := $(if $(filter 0,$(V)),@)
say = $(if $(filter 0,$(V)),@printf '  %-5s %s\n' $(1) $(2))

$(foreach p,$(PLUGINS),$(eval $(call plugin,$(p))))
PLUGIN_SO := $(foreach p,$(PLUGINS),$($(p).so))
NET_SO    := $(net.so)

.PHONY: all lib deps-run deps-python deps-test deps-bench deps-bench-models deps-web deps-test-web deps-demo-page deps-test-demo-page help clean unit
all: lib $(CLI) python         ##build build the library, the millrace command and the Python package
lib: $(SO) $(LIBA) $(PLUGIN_SO) ##build build the library and its plug-ins
	$(foreach p,$(PLUGINS),$(if $($(p).so),,@echo "  $($(p).lacks)"$(newline)	))@:

define newline


endef

# ---- generated: messages, and the tables of ops, tests and commands -----------------------------
# A table line is made from each MR_OP(Name, MR_TEST(name) or MR_COMMAND(name at the start of a line.
$(G)/proto/%.pb-c.c $(G)/proto/%.pb-c.h: proto/%.proto
	$(call say,PROTO,$<)
	@mkdir -p $(G)/proto
	$(q)protoc-c -Iproto --c_out=$(G)/proto $<
.SECONDARY: $(PB_C) $(PB_H)

define table # macro, inc file, sources
$(G)/$(2): $(3) Makefile
	@mkdir -p $$(@D)
	@sed -n 's/^$(1)(\([A-Za-z0-9_]*\).*/X(\1)/p' $(3) /dev/null | LC_ALL=C sort -u > $$@.tmp
	@cmp -s $$@.tmp $$@ || mv $$@.tmp $$@; rm -f $$@.tmp; touch $$@
endef
$(eval $(call table,MR_OP,ops.inc,$(filter src/ops/%,$(LIB_C))))
$(eval $(call table,MR_TEST,tests.inc,$(TEST_C)))
$(eval $(call table,MR_COMMAND,commands.inc,$(CLI_C)))

# The family of an op is the folder of its file under src/ops; `millrace ops --markdown` writes a page for each.
$(G)/op_families.inc: $(filter src/ops/%,$(LIB_C)) Makefile
	@mkdir -p $(@D)
	@awk 'match($$0, /^MR_OP\([A-Za-z0-9_]+/) { split(FILENAME, p, "/"); sub(/\.c$$/, "", p[3]); \
		print "X(" substr($$0, 7, RLENGTH - 6) ", " p[3] ")" }' $^ | LC_ALL=C sort > $@.tmp
	@cmp -s $@.tmp $@ || mv $@.tmp $@; rm -f $@.tmp; touch $@

# Kernels of OpenCL devices are text in the library: the .cl files, and expressions of ops that have a row for such a device.
CL_TEXT := src/exec/opencl/prelude.cl $(filter-out %_test.c %_fixture.c,$(filter src/ops/%,$(ALL_C))) $(sort $(shell find src/ops -name '*.cl'))
$(G)/kernels_cl.inc: tools/cl-kernels $(CL_TEXT)
	@mkdir -p $(@D)
	@tools/cl-kernels $(CL_TEXT) > $@.tmp
	@cmp -s $@.tmp $@ || mv $@.tmp $@; rm -f $@.tmp; touch $@

# All messages, for front ends that make theirs at run time (src/capi/messages.c).
$(G)/messages.inc: tools/message-table $(PB_H)
	@tools/message-table $(PB_H) > $@.tmp
	@cmp -s $@.tmp $@ || mv $@.tmp $@; rm -f $@.tmp; touch $@

# The files of the page, which `make web` puts into build/web. The list is compared too: a file may have been removed.
WEB_FILES := $(wildcard $(addprefix build/web/,index.html board.js board.css licenses.txt))
ifneq ($(strip $(WEB_FILES)),$(strip $(file <$(G)/web_files)))
.PHONY: $(G)/web_files
endif
$(G)/web_files:
	@mkdir -p $(@D)
	@echo "$(WEB_FILES)" > $@
$(G)/web_assets.inc: tools/embed $(G)/web_files $(WEB_FILES)
	@tools/embed $(WEB_FILES) > $@.tmp
	@mv $@.tmp $@

GEN := $(G)/web_assets.inc $(PB_H) $(G)/messages.inc $(G)/kernels_cl.inc $(G)/ops.inc $(G)/op_families.inc $(G)/tests.inc $(G)/commands.inc

# ---- compile and link ---------------------------------------------------------------------------
$(B)/%.o: %.c | $(GEN)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(COMPILE) -MMD -MP -c $< -o $@

# Products of floats may multiply and add in one: oneDNN, the other way to make them, does so too.
$(B)/src/ops/linalg/tiles.o $(B)/src/ops/linalg/product.o $(B)/src/ops/linalg/lapack/blas.o: MR_CFLAGS += -ffp-contract=fast
# Its sums side by side are chains of scalars: gcc would put each round of them into a vector and take it apart again.
$(B)/src/ops/math/cumsum.o: MR_CFLAGS += -fno-tree-slp-vectorize

# Where the command looks for plug-ins: LIBDIR as seen from BINDIR.
LIB_FROM_BIN := $(if $(filter $(LIBDIR),$(PREFIX)/lib),../lib,$(shell realpath -m --relative-to=$(BINDIR) $(LIBDIR)))
$(B)/src/base/beside.o: MR_CPPFLAGS += -DMR_LIB_FROM_BIN='"$(LIB_FROM_BIN)"'
$(B)/src/base/beside.o: $(B)/lib_from_bin
ifneq ($(LIB_FROM_BIN),$(file <$(B)/lib_from_bin))
.PHONY: $(B)/lib_from_bin
endif
$(B)/lib_from_bin:
	@mkdir -p $(@D)
	@echo "$(LIB_FROM_BIN)" > $@

$(B)/gen/%.o: $(G)/%.c | $(GEN)
	@mkdir -p $(@D)
	$(q)$(COMPILE) -Os -ffunction-sections -w -MMD -MP -c $< -o $@

# Hidden visibility does not reach what the compiler makes by itself (resolvers of target_clones).
$(G)/exports.map: tools/exported-names $(shell find include -name '*.h')
	@mkdir -p $(@D)
	@names=$$(tools/exported-names) && { echo '{ global:'; echo "$$names" | sed 's/$$/;/'; echo 'local: *; };'; } > $@

$(SO): $(LIB_O) $(G)/exports.map
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(q)$(LINK) -shared -Wl,-soname,libtensorflow.so.2 -Wl,--version-script=$(G)/exports.map -Wl,--exclude-libs,ALL \
	    -Wl,-z,nodelete -Wl,--gc-sections -o $@ $(LIB_O) $(LIBS)
	@for l in $(SO_NAMES); do ln -sf libtensorflow.so.2 $(@D)/$$l; done

# In the build tree the package is a link, so that a changed file of it needs no build.
.PHONY: python
python: $(PY_SO) $(PLUGIN_SO)  ##build build the Python package, and the plug-ins that it opens
	$(if $(PY_SO),@:,@echo "  no Python package: $(PY_LACKS)")
$(PY_O): MR_CPPFLAGS += $(PY_INCLUDE)
# $(call link_python,file,folder of the library as seen from the file's)
link_python = $(LINK) -shared -o $(1) $(PY_O) $(MR_LDFLAGS) $(LDFLAGS) -L$(B)/lib -l:libtensorflow.so.2 \
              -Wl,-rpath,'$$ORIGIN/$(2)' -pthread $(LDLIBS)
$(PY_DIR)/_millrace.so: $(PY_O) $(SO)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@for d in millrace tensorflow; do ln -sfn ../../../../../python/$$d $(@D)/$$d; done
	$(q)$(call link_python,$@,../../../lib)

$(LIBA): $(LIB_O)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	@rm -f $@
	$(q)ar rcs $@ $(LIB_O)

# It offers what the library exports: libraries of devices (MILLRACE_DEVICES) register with it as with any program.
$(CLI): $(CLI_O) $(LIBA)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(q)$(LINK) -pie -rdynamic -o $@ $(CLI_O) -Wl,--whole-archive $(LIBA) -Wl,--no-whole-archive $(LIBS)

# Unit tests see the insides, so they link the objects.
TESTED_O := $(LIB_O) $(filter-out %/main.o $(B)/src/cli/cmd_%,$(CLI_O))
$(UNIT): $(TEST_O) $(TESTED_O) | $(PLUGIN_SO)
	$(call say,LINK,$@)
	$(q)$(LINK) -rdynamic -o $@ $(TEST_O) $(TESTED_O) $(LIBS)

unit: $(UNIT)                  ##test build and run the unit tests (T=part of a name)
	$(q)$(UNIT) $(T)

# ---- fuzzing: tests/fuzz ------------------------------------------------------------------------
# Always with sanitizers, whatever else is being built.
FUZZ_C   := $(sort $(wildcard tests/fuzz/*.c)) src/ops/example_fixture.c src/graph/flow_builder_fixture.c src/graph/random_program_fixture.c
FUZZ_O   := $(FUZZ_C:%.c=$(B)/%.o)
FUZZ     := $(B)/fuzz
FUZZ_SAN := address,undefined
fuzz_with = $(MAKE) --no-print-directory SAN=$(FUZZ_SAN) fuzz-run FUZZ_ARGS="$(1)"

$(FUZZ): $(FUZZ_O) $(LIB_O) | $(PLUGIN_SO)
	$(call say,LINK,$@)
	$(q)$(LINK) -rdynamic -o $@ $(FUZZ_O) $(LIB_O) $(LIBS)

.PHONY: fuzz fuzz-quick fuzz-run fuzz-selftest fuzz-selftest-run fuzz-coverage
fuzz:                          ##soak every parser, every op and the services of a cluster: millions of inputs under sanitizers
	$(q)+$(call fuzz_with,all)
fuzz-quick:                    ##soak one percent of that, with the same inputs every time
	$(q)+$(call fuzz_with,all --percent 1)
fuzz-run: $(FUZZ)
	$(q)$(FUZZ) $(FUZZ_ARGS)

# The script builds fuzzers with a bug in them out of the same objects, by the same flags.
fuzz-selftest:                 ##soak plant known bugs, one at a time: the fuzzers must find each
	$(q)+$(MAKE) --no-print-directory SAN=$(FUZZ_SAN) fuzz-selftest-run
fuzz-selftest-run: $(FUZZ)
	$(file >$(FUZZ).objects)$(foreach o,$(FUZZ_O) $(LIB_O),$(file >>$(FUZZ).objects,$(o)))
	$(q)COMPILE="$(COMPILE) -c" LINK="$(LINK) -rdynamic" LIBS="$(LIBS)" \
	    tests/fuzz/selftest $(B)

fuzz-coverage: $(FUZZ)         ##soak count the lines of each parser that its fuzz target reaches (RUNS=30000)
	$(file >$(FUZZ).objects)$(foreach o,$(FUZZ_O) $(LIB_O),$(file >>$(FUZZ).objects,$(o)))
	$(q)tools/fuzz-coverage $(FUZZ).objects "$(LIBS)" $(RUNS)

# ---- refused memory: tests/memory ---------------------------------------------------------------
MEMORY   := $(B)/memory
MEMORY_O := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/memory/*.c)) src/ops/example_fixture.c)
$(MEMORY): $(MEMORY_O) $(LIB_O)
	$(call say,LINK,$@)
	$(q)$(LINK) -rdynamic -o $@ $(MEMORY_O) $(LIB_O) $(LIBS)

.PHONY: test-memory memory-run
test-memory:                   ##test refuse every allocation of many scenarios, one at a time, under sanitizers (T=part of a name)
	$(q)+$(MAKE) --no-print-directory SAN=$(FUZZ_SAN) memory-run
memory-run: $(MEMORY)
	$(q)rm -rf $(B)/memory-runs && mkdir -p $(B)/memory-runs && cd $(B)/memory-runs && $(abspath $(MEMORY)) $(if $(T),"$(T)")

# ---- simulation: tests/sim ----------------------------------------------------------------------
SIM   := $(B)/sim
SIM_O := $(B)/tests/sim/main.o
$(SIM): $(SIM_O) $(LIB_O)
	$(call say,LINK,$@)
	$(q)$(LINK) -o $@ $(SIM_O) $(LIB_O) $(LIBS)

.PHONY: sim-soak sim-selftest
sim-soak: $(SIM)               ##soak simulated clusters with all kinds of faults (SEEDS=100000)
	$(q)$(SIM) --runs $(or $(SEEDS),100000) $(if $(FROM),--from $(FROM))
	$(q)$(SIM) --ps --runs $(or $(SEEDS),100000) $(if $(FROM),--from $(FROM))

# The script builds simulations with a bug in them out of the same objects, by the same flags.
sim-selftest: $(SIM)           ##soak plant known bugs in dist/, one at a time: the simulation must find each
	$(file >$(SIM).objects)$(foreach o,$(SIM_O) $(LIB_O),$(file >>$(SIM).objects,$(o)))
	$(q)COMPILE="$(COMPILE) -c" LINK="$(LINK)" LIBS="$(LIBS)" \
	    tests/sim/selftest $(B)

# Where the numbers of src/sim/train/calibration.c come from.
CALIBRATE := $(B)/calibrate
$(CALIBRATE): $(B)/tests/sim/calibrate.o $(LIB_O)
	$(call say,LINK,$@)
	$(q)$(LINK) -o $@ $< $(LIB_O) $(LIBS)

.PHONY: calibrate
calibrate: $(CALIBRATE)        ##bench fit the training simulator to the ends of published curves and show all of them (CALIBRATE_ARGS=--table: no fit)
	$(q)$(CALIBRATE) $(CALIBRATE_ARGS)

# ---- the page of `millrace board`: web ----------------------------------------------------------
# Node.js builds the page; nothing else needs it, and the build embeds build/web where it exists. A copy of web/ is
# built, so that node_modules is below build/ too.
WEB      := build/web
WEB_WORK := build/web-work
WEB_IN   := $(sort $(shell find web -name node_modules -prune -o -path web/wasm -prune -o -type f -print))

.PHONY: web
web: deps-web                  ##build build the page of `millrace board` into build/web; the next build of the command embeds it
	$(q)$(MAKE) --no-print-directory $(WEB)/.stamp

$(WEB_WORK)/.installed: web/package.json web/package-lock.json web/.npmrc
	$(call say,NPM,$(WEB_WORK)/node_modules)
	@v=$$($(NODE) -p 'process.versions.node' 2>/dev/null) || v=none; case "$$v" in \
	    none | [0-9].* | 1[0-7].*) echo "make web needs Node.js 18 or newer, and '$(NODE)' is $$v" >&2; exit 1 ;; esac
	@mkdir -p $(@D)
	@cp $^ $(@D)/
	$(q)cd $(@D) && $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(WEB)/.stamp: $(WEB_IN) $(WEB_WORK)/.installed
	$(call say,WEB,$(WEB))
	@rm -rf $(WEB_WORK)/src && cd web && cp --parents $(WEB_IN:web/%=%) $(abspath $(WEB_WORK))/
	$(q)cd $(WEB_WORK) && $(NODE) node_modules/typescript/bin/tsc --noEmit
	@rm -rf $(WEB)
	$(q)cd $(WEB_WORK) && $(NODE) build.mjs $(abspath $(WEB))
	@touch $@

# board.so is known to a make that starts after the packages are installed.
.PHONY: demo demo-command
demo: web                      ##run build and start `millrace board`, which prints the address of its page (BOARD_ARGS are passed on)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) demo-command
	$(q)$(CLI) board $(BOARD_ARGS)
demo-command: $(CLI) $(board.so)

# The same page as one file, with the simulator in it as WebAssembly; nothing else needs Emscripten. Left out are the
# folders that need threads, devices or a network, and what web/wasm has in their place.
DEMO      := build/demo
DEMO_HTML := $(DEMO)/millrace-board.html
DEMO_DIRS := $(patsubst %,src/%/,base wire tensor graph run store ops passes exec dist train sim board)
DEMO_NOT  := $(PLUGIN_DIRS) src/exec/opencl/% src/exec/trace% src/exec/blame% src/sim/ps/% src/sim/measure.c \
             src/board/listen.c src/board/http_library.c src/ops/dnnl% src/ops/nn/conv_float.c
DEMO_LIB_C := $(filter-out $(DEMO_NOT),$(filter $(addsuffix %,$(DEMO_DIRS)),$(SOURCES))) src/capi/version.c
DEMO_C    := $(sort $(wildcard web/wasm/*.c))
DEMO_LIB_O := $(DEMO_LIB_C:%.c=$(DEMO)/%.o) $(PB_C:$(G)/%.c=$(DEMO)/gen/%.o)
DEMO_O    := $(DEMO_C:%.c=$(DEMO)/%.o)
# Debian's Emscripten looks for its JavaScript libraries beside a Node.js that may come from elsewhere.
EMCC      ?= emcc
EMAR      ?= emar
EMSCRIPTEN := NODE_PATH=/usr/share/nodejs$(if $(NODE_PATH),:$(NODE_PATH))
DEMO_CC   = $(EMSCRIPTEN) $(EMCC) $(MR_CPPFLAGS) -I$(DEMO)/include -DZ_SOLO -include web/wasm/libc.h -std=gnu11 -Oz $(WARN) \
            -Wno-initializer-overrides -Iweb/wasm -fvisibility=hidden -fno-math-errno -fno-trapping-math -ffp-contract=off -fno-strict-aliasing
DEMO_LINK = $(EMSCRIPTEN) $(EMCC) -Oz -sMODULARIZE -sEXPORT_NAME=createSimulator -sENVIRONMENT=worker -sWASM_BIGINT \
            -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=2GB -sTOTAL_STACK=8MB -sFORCE_FILESYSTEM -sEXPORTED_RUNTIME_METHODS=ccall
DEMO_LICENSES = LICENSE $(WEB)/licenses.txt web/wasm/licenses.txt

.PHONY: demo-page demo-page-file
demo-page: deps-demo-page      ##build write the page of `millrace board` as one file that needs no server, build/demo/millrace-board.html
	$(q)$(MAKE) --no-print-directory $(WEB)/.stamp
	$(q)$(MAKE) --no-print-directory -j$$(nproc) demo-page-file
demo-page-file: $(DEMO_HTML)

# Of the machine's headers only those that declare no machine.
$(DEMO)/include/.stamp:
	@mkdir -p $(@D)
	@ln -sfn $(patsubst %/,%,$(dir $(call find_header,protobuf-c/protobuf-c.h))) $(@D)/protobuf-c
	@ln -sf $(call find_header,zlib.h) $(call find_header,zconf.h) $(@D)/
	@touch $@
$(WEB)/licenses.txt: $(WEB)/.stamp ;
$(DEMO)/%.o: %.c | $(GEN) $(DEMO)/include/.stamp
	$(call say,EMCC,$<)
	@mkdir -p $(@D)
	$(q)$(DEMO_CC) -MMD -MP -c $< -o $@
$(DEMO)/gen/%.o: $(G)/%.c | $(GEN) $(DEMO)/include/.stamp
	@mkdir -p $(@D)
	$(q)$(DEMO_CC) -w -c $< -o $@
$(DEMO)/simulator.a: $(DEMO_LIB_O)
	$(call say,AR,$@)
	@rm -f $@
	$(file >$@.objects,$(DEMO_LIB_O))
	$(q)$(EMSCRIPTEN) $(EMAR) rcs $@ @$@.objects
$(DEMO)/simulator.js: $(DEMO_O) $(DEMO)/simulator.a
	$(call say,LINK,$@)
	$(q)$(DEMO_LINK) -o $@ $^
$(DEMO_HTML): $(DEMO)/simulator.js web/wasm/worker.js $(DEMO_LICENSES) $(WEB)/.stamp
	$(call say,WEB,$@)
	$(q)cd $(WEB_WORK) && $(NODE) page.mjs $(abspath $@) $(abspath $(DEMO)/simulator web/wasm/worker.js $(DEMO_LICENSES))

.PHONY: test-web test-demo-page bench-web
test-web: deps-test-web        ##test the page of `millrace board` in Chromium, beside `millrace sim --json` (T=part of a name); screens go to build/web-screens
	$(q)$(MAKE) --no-print-directory $(WEB)/.stamp
	$(q)$(MAKE) --no-print-directory -j$$(nproc) demo-command
	$(q)NODE=$(NODE) tests/web/run $(B) $(T)
	@command -v $(EMCC) >/dev/null || echo "The page in one file was not tested: make test-demo-page installs Emscripten, which is large"

bench-web: deps-test-web       ##bench the page of `millrace board` in Chromium: a graph of 10,000 nodes opens, a scope expands, a slider moves
	$(q)$(MAKE) --no-print-directory $(WEB)/.stamp
	$(q)$(MAKE) --no-print-directory -j$$(nproc) demo-command
	$(q)$(NODE) bench/web/main.mjs $(B)

test-demo-page: deps-test-demo-page ##test that page in Chromium, from file://: no requests, and every answer is that of `millrace sim --json` (T=part of a name)
	$(q)$(MAKE) --no-print-directory demo-page
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(CLI)
	$(q)$(NODE) tests/web/demo_page.mjs $(B) $(DEMO_HTML) $(T)

deps-web: ; @tools/deps web
deps-demo-page: ; @tools/deps demo-page
deps-test-demo-page: ; @tools/deps test-demo-page
deps-test-web: ; @tools/deps test-web
deps-run: ; @tools/deps run
deps-python: ; @tools/deps python
deps-test: ; @tools/deps test
deps-bench: ; @tools/deps bench
deps-bench-models: ; @tools/deps bench-models

# ---- using it -----------------------------------------------------------------------------------
# Examples see what a user sees: the public headers and the shared library.
$(B)/examples/%: examples/%.c examples/options.h $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CLIENT_CC) -std=c11 $< -o $@ $(CLIENT_LIBS)

# Soaks and the benchmarks that use the library as a program does.
$(B)/soak/%: tests/soak/%.c $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CLIENT_CC) $< -o $@ $(CLIENT_LIBS)

.PHONY: run examples install uninstall test check layers figures bench bench-ops test-oracle docs docs-check \
    soak-save soak-threads soak-kill soak-ps soak-downpour soak-zookeeper
soak-save: $(B)/soak/save      ##soak kill -9 at 300 instants while saving (KILLS=300 SEED=n)
	$(q)$(B)/soak/save --kills $(or $(KILLS),300) $(if $(SEED),--seed $(SEED))

soak-threads: $(B)/soak/threads ##soak random steps from many threads: nothing hangs (STEPS=1000000 SEED=n)
	$(q)$(B)/soak/threads --steps $(or $(STEPS),1000000) $(if $(SEED),--seed $(SEED))

SOAK_KILL := $(B)/soak/kill $(B)/soak/kill_program
soak-kill: $(SOAK_KILL) $(CLI) $(NET_SO) ##soak kill -9 of random tasks while clusters train (RUNS=30 KILLS=10 SEED=n)
	$(q)$(B)/soak/kill --launcher $(CLI) --program $(B)/soak/kill_program --runs $(or $(RUNS),30) --kills $(or $(KILLS),10) \
	    $(if $(SEED),--seed $(SEED))

soak-ps: $(B)/soak/ps $(NET_SO) ##soak kill -9 of parameter servers under pushes: no acknowledged push is lost or applied twice (KILLS=200 SEED=n; FREEZE=1 also stops some; JUDGE=0 ignores times)
	$(q)$(B)/soak/ps --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED)) $(if $(JUDGE),--judge $(JUDGE)) $(if $(FREEZE),--freeze $(FREEZE))

soak-downpour: $(B)/soak/downpour $(NET_SO) ##soak kill -9 of Downpour replicas: the longest pause of the others, with and without kills (KILLS=50 SEED=n)
	$(q)$(B)/soak/downpour --kills $(or $(KILLS),50) $(if $(SEED),--seed $(SEED))

soak-zookeeper: all $(B)/soak/kill_program ##soak kill tasks that come back at other ports and are found through ZooKeeper (RUNS=20 SEED=n)
	$(q)$(PYTHON) -B tests/soak/zookeeper.py $(B) --runs $(or $(RUNS),20) $(if $(SEED),--seed $(SEED))

# Always with sanitizers, as the fuzzers are. The page is built first, because the command embeds it.
.PHONY: soak-board soak-board-run
soak-board: deps-test deps-web ##soak hostile requests to `millrace board`, through sockets and directly, under sanitizers (REQUESTS=1000000 SEED=n)
	$(q)$(MAKE) --no-print-directory $(WEB)/.stamp
	$(q)+$(MAKE) --no-print-directory SAN=$(FUZZ_SAN) soak-board-run
soak-board-run: $(FUZZ) $(CLI) $(board.so)
	$(q)$(PYTHON) -B tests/soak/board.py $(B) --requests $(or $(REQUESTS),1000000) $(if $(SEED),--seed $(SEED))

EXAMPLES := $(patsubst examples/%.c,$(B)/examples/%,$(wildcard examples/*.c))
examples: $(EXAMPLES)          ##build build the examples

# One parameter server and two workers with keys of their own, over shared memory; or one process with a session.
RUN := $(if $(filter local,$(MODE)),mnist,cluster_mnist)
run: deps-run                  ##run train the MNIST network on a local cluster; MODE=local in one process (RUN_ARGS are passed on)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(B)/examples/$(RUN) $(if $(filter local,$(MODE)),,$(CLI) $(NET_SO))
	$(q)$(if $(filter local,$(MODE)),,$(CLI) launch --ps 1 --workers 2 --bare-chief --quiet -- )$(B)/examples/$(RUN) \
	    --dir "$$(tools/mnist)" $(RUN_ARGS)

.PHONY: run-python
run-python: deps-python        ##run train an MNIST network from Python (SCRIPT=examples/python/mnist.py; RUN_ARGS are passed on)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all
	$(q)MNIST_DIR="$$(tools/mnist)" PYTHON=$(PYTHON) $(CLI) python $(or $(SCRIPT),examples/python/mnist.py) $(RUN_ARGS)

# ---- installing it ------------------------------------------------------------------------------
D       := $(DESTDIR)
below_prefix = $(patsubst $(abspath $(PREFIX))/%,$${prefix}/%,$(abspath $(1)))
STRIPPED = $(if $(filter no,$(STRIP)),,-s --strip-program=$(STRIP))
# $(call install_tree,folder,folders in it,to): the files below these folders, to the same places below another
install_tree = cd $(1) && find $(2) -type f ! -path '*/__pycache__/*' \
               -exec $(INSTALL) -D -m 644 '{}' '$(abspath $(3))/{}' ';'

install: lib $(CLI) python     ##run install the library, headers, command and Python package below DESTDIR and PREFIX (STRIP=no keeps symbols)
	$(q)$(INSTALL) -d $(D)$(BINDIR) $(D)$(LIBDIR)/pkgconfig $(D)$(INCLUDEDIR)
	$(q)$(INSTALL) -m 755 $(STRIPPED) $(CLI) $(D)$(BINDIR)/
	$(q)$(INSTALL) -m 644 $(STRIPPED) $(SO) $(PLUGIN_SO) $(D)$(LIBDIR)/
	$(q)for l in $(SO_NAMES); do ln -sf libtensorflow.so.2 $(D)$(LIBDIR)/$$l; done
	$(q)$(INSTALL) -m 644 $(LIBA) $(D)$(LIBDIR)/
	$(if $(filter no,$(STRIP)),,$(q)$(STRIP) -g $(D)$(LIBDIR)/$(notdir $(LIBA)))
	$(q)$(call install_tree,include,tensorflow millrace,$(D)$(INCLUDEDIR))
	$(q)for name in Millrace tensorflow; do \
	    sed -e "s|@NAME@|$$name|" -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|' \
	        -e 's|@INCLUDEDIR@|$(call below_prefix,$(INCLUDEDIR))|' -e 's|@VERSION@|$(VERSION)|' tools/millrace.pc.in \
	        > $(D)$(LIBDIR)/pkgconfig/$$(echo $$name | tr M m).pc; done
	$(q)$(INSTALL) -d $(D)$(MANDIR)/man1
	$(q)$(CLI) help --man $(D)$(MANDIR)/man1
	$(if $(PY_SO),$(install_python),@echo "The Python package was not built and is not installed: $(PY_LACKS)" >&2)

# The extension is linked once more, because it must find the library in LIBDIR. Python's compiled files are made here,
# because a user may not write into PREFIX.
define install_python
$(q)rm -rf $(D)$(PYTHONDIR)
	$(q)$(INSTALL) -d $(D)$(PYTHONDIR)
	$(q)$(call install_tree,python,millrace tensorflow,$(D)$(PYTHONDIR))
	$(q)$(call link_python,$(D)$(PYTHONDIR)/_millrace.so,$(shell realpath -m --relative-to=$(PYTHONDIR) $(LIBDIR)))
	$(if $(filter no,$(STRIP)),,$(q)$(STRIP) $(D)$(PYTHONDIR)/_millrace.so)
	$(q)$(PYTHON) -m compileall -q -d $(abspath $(PYTHONDIR)) $(D)$(PYTHONDIR)
endef

uninstall:                     ##run remove what `make install` with the same DESTDIR, PREFIX and LIBDIR put there
	$(q)rm -f $(D)$(BINDIR)/millrace $(addprefix $(D)$(LIBDIR)/,libtensorflow.so.2 $(SO_NAMES) libmillrace.a \
	    $(PLUGINS:%=libmillrace-%.so) pkgconfig/millrace.pc pkgconfig/tensorflow.pc)
	$(q)cd include && find tensorflow millrace -type f -exec rm -f '$(abspath $(D)$(INCLUDEDIR))/{}' ';'
	$(q)for d in $(D)$(INCLUDEDIR)/tensorflow $(D)$(INCLUDEDIR)/millrace; do \
	    [ ! -d $$d ] || find $$d -depth -type d -empty -delete; done
	$(q)rm -rf $(D)$(PREFIX)/share/millrace
	$(q)rm -f $(D)$(MANDIR)/man1/millrace.1 $(D)$(MANDIR)/man1/millrace-*.1

# ---- measuring it -------------------------------------------------------------------------------
# One program a question; they see the insides, so they link the static library.
$(B)/bench/%: bench/%.c $(wildcard bench/*.h) $(LIBA) | $(NET_SO) $(crypto.so)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(COMPILE) $< -o $@ $(LIBA) $(LIBS)

# Like a client: what loading the library costs is part of what it measures.
$(B)/bench/import: bench/import.c $(SO)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(q)$(LINK) -Iinclude $(CPPFLAGS) -o $@ $< -L$(B)/lib -l:libtensorflow.so.2 -Wl,-rpath,$(abspath $(B))/lib $(LDFLAGS)
$(B)/bench/%_lib.so: bench/%_lib.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) $(MR_CPPFLAGS) $(CPPFLAGS) -std=gnu11 -O2 -fPIC -shared $(STRICT) $(CFLAGS) $< -o $@ $(LDFLAGS)

.PHONY: bench-group
bench-group: deps-bench        ##bench all-reduce, push and pull beside gloo and Open MPI, with free and loaded cores (ROUNDS=3); collective algorithms beside each other
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(addprefix $(B)/bench/,all_reduce push_pull collectives $(if $(mpi.so),mpi_all_reduce)) $(NET_SO)
	$(q)bench/group_peers $(B)/bench $(PYTHON)
	$(q)$(B)/bench/collectives
$(B)/bench/mpi_all_reduce: bench/mpi_all_reduce.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) $(mpi.include) $(CPPFLAGS) -std=gnu11 -O2 $(STRICT) $(CFLAGS) $< -o $@ $(LDFLAGS) $(mpi.libs)

BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(filter-out %_lib.c bench/mpi_%,$(wildcard bench/*.c))) \
           $(patsubst bench/%.c,$(B)/bench/%.so,$(wildcard bench/*_lib.c))
bench: deps-bench              ##bench the main benchmarks: lines of `name value unit`; a ratio over 1 means that we are faster
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(BENCHES) $(CLI) $(NET_SO) python
	$(q)$(B)/bench/null_ops
	$(q)$(B)/bench/import
	$(q)PYTHONPATH=$(PY_DIR) $(PYTHON) bench/python.py
	$(q)$(B)/bench/net_recv
	$(q)$(B)/bench/master_steps
	$(q)$(B)/bench/null_step
	$(q)$(B)/bench/cluster_start $(CLI)
	$(q)$(CLI) sim --measure
	$(q)bench/cluster_peers $(B)/bench $(PYTHON)
	$(q)bench/peers $(B)/bench $(PYTHON)

.PHONY: bench-placement
bench-placement: $(B)/bench/placement ##bench placement by cost: random graphs on simulated devices, predicted and measured (GRAPHS=40)
	$(q)$(B)/bench/placement $(GRAPHS)

.PHONY: bench-scaling
bench-scaling: deps-run        ##bench images/s of 1, 2 and 3 workers on this machine, beside what the simulator predicts
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all examples $(addprefix $(B)/bench/,scaling master_steps push_pull)
	$(q)$(B)/bench/scaling $(B) "$$(tools/mnist)"

.PHONY: bench-train
bench-train: deps-run          ##bench training over many workers: stragglers, large tables, pipelines, Downpour, Sandblaster, all-reduce
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(addprefix $(B)/bench/,backups count_min embedding pipeline data_parallel distbelief sandblaster) $(NET_SO)
	$(q)$(B)/bench/count_min
	$(q)$(B)/bench/backups
	$(q)$(MAKE) --no-print-directory bench-group
	$(q)$(B)/bench/embedding
	$(q)$(B)/bench/pipeline
	$(q)$(B)/bench/data_parallel
	$(q)$(B)/bench/distbelief
	$(q)$(B)/bench/sandblaster

# The small form is a test: the same promises, in seconds.
PS_TRAFFIC := $(B)/examples/sparse_logistic $(NET_SO)
.PHONY: bench-ps-traffic test-ps-traffic
bench-ps-traffic: deps-run     ##bench sparse logistic regression over parameter servers: bytes that filters save, time that bounded delay saves
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(PS_TRAFFIC) $(B)/bench/count_min
	$(q)$(B)/bench/count_min
	$(q)$(PYTHON) bench/ps_traffic.py $(B)
test-ps-traffic: $(PS_TRAFFIC)
	$(q)$(PYTHON) bench/ps_traffic.py $(B) --small

.PHONY: bench-fed
bench-fed: deps-run            ##bench federated averaging on MNIST as in its paper: 99 % within 30 rounds, 97 % where clients have two digits (FED_ARGS are passed on); what secure sums cost
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(B)/examples/federated $(B)/bench/secure_sum
	$(q)$(B)/bench/secure_sum
	$(q)$(B)/examples/federated --dir "$$(tools/mnist)" --rounds 30 --target 99 $(FED_ARGS)
	$(q)$(B)/examples/federated --dir "$$(tools/mnist)" --non-iid --rounds 60 --target 97 $(FED_ARGS)

# onnxruntime comes from npm; its install script would download a build for GPUs.
MODELS_WORK := build/bench-models
$(MODELS_WORK)/.installed: bench/models/package.json bench/models/package-lock.json
	@mkdir -p $(@D) && cp $^ $(@D)/ && cd $(@D) && $(NPM) ci --ignore-scripts --no-audit --no-fund >/dev/null && touch .installed

.PHONY: bench-models
bench-models: deps-bench-models ##bench training and inference of 35 models beside PyTorch, onnxruntime and OpenCV; about half an hour (T="parts of names", BENCH_ARGS are passed on)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) python $(MODELS_WORK)/.installed
	$(q)PYTHONPATH=$(PY_DIR) $(PYTHON) bench/models/main.py --node $(NODE) --modules $(MODELS_WORK) \
	    --json $(MODELS_WORK)/models.json --markdown $(MODELS_WORK)/models.md --chart $(MODELS_WORK)/models.svg $(BENCH_ARGS) $(T)

bench-ops: deps-bench          ##bench single ops beside a copy of memory and beside PyTorch, a line each
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(B)/bench/ops
	$(q)bench/op_peers $(B)/bench $(PYTHON)

# ---- programs of clients ------------------------------------------------------------------------
# They are compiled against include/ alone and linked with the shared library, as found in public;
# NAME_lib.c is a library of ops that they load.
CLIENT_C   := $(filter-out tests/capi/headers_c.c %_lib.c,$(sort $(wildcard tests/capi/*.c)))
CLIENT     := $(CLIENT_C:tests/capi/%.c=$(B)/capi/%) $(patsubst tests/capi/%_lib.c,$(B)/capi/%_lib.so,$(wildcard tests/capi/*_lib.c))

$(B)/capi/%: tests/capi/%.c tests/capi/client.h $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CLIENT_CC) -O1 $< -o $@ $(CLIENT_LIBS)

$(B)/capi/%_lib.so: tests/capi/%_lib.c $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CLIENT_CC) -O1 -fPIC -shared $< -o $@ $(CLIENT_LIBS)

.PHONY: test-capi
test-capi: $(CLIENT)           ##test programs that use the C API; the headers; the exported names
	$(q)tests/capi/run $(B) $(filter-out %.so,$(CLIENT))

.PHONY: test-cli
test-cli: $(CLI) $(PY_SO) $(CALIBRATE) $(PLUGIN_SO) $(B)/soak/kill_program $(EXAMPLES) ##test the millrace command: launch here, over ssh, in mpirun and Slurm; serve; keys (T=part of a name)
	$(q)PYTHON=$(PYTHON) tests/cli/run $(B) $(T)

.PHONY: test-python
test-python: $(CLI) $(NET_SO) $(crypto.so) python ##test the Python package (T=part of a name)
	$(q)PYTHON=$(PYTHON) tests/python/run $(B) $(T)

.PHONY: test-examples
test-examples: $(CLI) $(NET_SO) $(crypto.so) python $(addprefix $(B)/examples/,serve downpour sandblaster batch_driver next_word pipeline) ##test run the examples to their stated results (T=part of a name)
	$(q)PYTHON=$(PYTHON) MNIST_DIR="$$(tools/mnist)" $(PYTHON) -B tests/examples/run $(B) $(T)

# Preloaded into the examples, it switches fusion off.
$(B)/examples/without_fusion.so: tests/examples/without_fusion.c $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CLIENT_CC) -std=c11 -Wno-pedantic -O1 -fPIC -shared $< -o $@ $(CLIENT_LIBS)

.PHONY: test-examples-unfused
test-examples-unfused: $(B)/examples/without_fusion.so ##test the examples with fusion switched off, to the same results (T=part of a name)
	$(q)LD_PRELOAD=$(abspath $<) $(MAKE) --no-print-directory test-examples

.PHONY: python-coverage
python-coverage: python        ##test how much of what public TF 1.x scripts use the Python package has (COVERAGE_ARGS=--missing names the rest)
	$(q)PYTHONPATH=$(PY_DIR) $(PYTHON) -B tools/python-coverage $(COVERAGE_ARGS)

# ---- checking it --------------------------------------------------------------------------------
test: deps-test                ##test everything that must hold for a change
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all examples $(UNIT) $(B)/soak/save $(B)/soak/threads $(B)/soak/ps $(B)/soak/downpour $(SOAK_KILL) $(SIM)
	$(q)$(MAKE) --no-print-directory unit
	$(q)$(MAKE) --no-print-directory test-capi
	$(q)$(MAKE) --no-print-directory test-python
	$(q)$(MAKE) --no-print-directory test-cli
	$(q)$(MAKE) --no-print-directory docs-check
	$(q)$(MAKE) --no-print-directory golden-check
	$(q)$(MAKE) --no-print-directory soak-save KILLS=20 SEED=1
	$(q)$(MAKE) --no-print-directory soak-threads STEPS=5000 SEED=1
	$(q)$(MAKE) --no-print-directory soak-kill RUNS=2 KILLS=3 SEED=1
	$(q)$(MAKE) --no-print-directory soak-ps KILLS=10 SEED=1 JUDGE=0
	$(q)$(MAKE) --no-print-directory soak-downpour KILLS=3 SEED=1
	$(q)$(MAKE) --no-print-directory sim-soak SEEDS=2000
	$(q)$(MAKE) --no-print-directory test-ps-traffic
	$(q)$(MAKE) --no-print-directory -j$$(nproc) fuzz-quick
	$(q)$(MAKE) --no-print-directory layers

RUN_DOCS := docs/sim.md docs/tour.md $(if $(PY_SO),docs/python.md docs/optimizations.md)
docs: $(CLI) python            ##docs write docs/ops, docs/c-api, ops/op_functions.py, the diagrams, and the output of commands into the pages that show it
	$(q)rm -f docs/ops/*.md
	$(q)$(CLI) ops --markdown docs/ops
	$(if $(PY_SO),$(q)PYTHONPATH=$(PY_DIR) $(PYTHON) -B tools/python-ops > $(B)/op_functions.py && \
	    mv $(B)/op_functions.py python/millrace/ops/op_functions.py)
	$(q)$(PYTHON) tools/diagrams
	$(q)$(PYTHON) tools/c-api-docs docs/c-api
	$(q)$(PYTHON) tools/run-docs $(B) $(RUN_DOCS)

docs-check: $(CLI) python      ##docs check that generated pages, diagrams and shown output are up to date, and that files named in READMEs exist
	$(q)rm -rf $(B)/docs-ops
	$(q)$(CLI) ops --markdown $(B)/docs-ops
	$(q)diff -rq $(B)/docs-ops docs/ops || { echo "docs/ops is out of date: run make docs"; exit 1; }
	$(if $(PY_SO),$(q)PYTHONPATH=$(PY_DIR) $(PYTHON) -B tools/python-ops | cmp -s - python/millrace/ops/op_functions.py || \
	    { echo "python/millrace/ops/op_functions.py is out of date: run make docs"; exit 1; })
	$(q)$(PYTHON) tools/diagrams --check
	$(q)$(PYTHON) tools/c-api-docs --check docs/c-api
	$(q)$(PYTHON) tools/doc-paths
	$(q)$(PYTHON) tools/run-docs --check $(B) $(RUN_DOCS)

test-oracle: deps-bench        ##test compare results with numpy, scipy and PyTorch (T=part of a name, SEED=n)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) lib
	$(q)MILLRACE_LIB=$(SO) PYTHONPATH=tests/oracle OPENBLAS_NUM_THREADS=1 $(PYTHON) -W ignore tests/oracle/run.py $(T)

.PHONY: golden-check
golden-check:                  ##test check that tests/golden has what tests/golden/make.py writes
	$(q)$(PYTHON) -B tests/golden/make.py --check

layers:                        ##test check the includes against src/LAYERS
	$(q)tools/layers && echo "layers: as src/LAYERS says"

figures:                       ##test how the code reads, in numbers: lengths, comments, asserts, names (tools/figures --help)
	$(q)$(PYTHON) -B tools/figures

check: export WERROR := 1
check: deps-test               ##test what a change passes: both compilers with warnings as errors, layers, all sanitizers
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all unit CC=gcc
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all unit CC=clang
	$(q)$(MAKE) --no-print-directory layers
	$(q)$(MAKE) --no-print-directory figures
	$(q)$(MAKE) --no-print-directory -j$$(nproc) unit SAN=address,undefined
	$(q)$(MAKE) --no-print-directory -j$$(nproc) unit SAN=thread

clean:                         ##build remove build/
	rm -rf build

GROUPS := build=Build run=Run_and_install test=Test soak=Soak_and_fuzz bench=Benchmarks docs=Documentation
help:                          ##docs this list
	@awk -v groups="$(GROUPS)" '\
	    match($$0, /^[a-z-]+:.*##[a-z]+ /) { \
	        name = substr($$0, 1, index($$0, ":") - 1); \
	        tail = $$0; sub(/^[^#]*(#[^#][^#]*)*##/, "", tail); \
	        group = substr(tail, 1, index(tail, " ") - 1); \
	        lines[group] = lines[group] sprintf("  %-17s %s\n", name, substr(tail, length(group) + 2)) } \
	    END { n = split(groups, list, " "); \
	        for (i = 1; i <= n; i++) { \
	            split(list[i], pair, "="); gsub("_", " ", pair[2]); \
	            printf "%s%s\n%s", (i == 1 ? "" : "\n"), pair[2], lines[pair[1]] } }' Makefile

-include $(patsubst %.o,%.d,$(LIB_O) $(PY_O) $(foreach p,$(PLUGINS),$($(p).o)) $(TEST_O) $(CLI_O) $(FUZZ_O) $(SIM_O) \
    $(B)/tests/sim/calibrate.o $(DEMO_LIB_O) $(DEMO_O))
