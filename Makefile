# Millrace.  `make help` lists the targets.  All output goes to build/.

CC      ?= gcc
PREFIX  ?= /usr/local
VERSION := 0.1.0
PYTHON  ?= /usr/bin/python3
SAN     ?=
V       ?= 0

ifeq ($(origin CC),default)
CC := gcc
endif

# One folder of objects a compiler and sanitizer, so that `make check` throws nothing away.
comma   := ,
VARIANT := $(notdir $(lastword $(CC)))$(if $(SAN),-$(subst $(comma),-,$(SAN)))
B       := build/$(VARIANT)
G       := build/gen

WARN    := -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wpointer-arith \
           -Wno-missing-field-initializers -Wno-override-init $(if $(findstring clang,$(CC)),-Wthread-safety -Wno-initializer-overrides,)
OPT     := -O2 $(if $(findstring clang,$(CC)),,-ftree-vectorize -fvect-cost-model=dynamic)
ifneq ($(SAN),)
OPT     := -O1 -DMR_DEBUG -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
# What makes a bug harder to exploit; sanitizers find it instead.  HARDEN= turns it off.  Of CET only the shadow stack: Linux has
# no branch tracking for programs, and its marks would be an instruction in every function.
ifeq ($(SAN),)
HARDEN  ?= -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 \
           $(if $(filter x86_64,$(shell uname -m)),-fcf-protection=return)
endif
LDFLAGS += -Wl,-z,relro,-z,now
CFLAGS  ?= -g
CFLAGS  += -std=gnu11 $(OPT) $(HARDEN) $(WARN) -fPIC -fvisibility=hidden -fno-math-errno -fno-trapping-math \
           -ffp-contract=off -fno-strict-aliasing -pthread
CPPFLAGS += -Isrc -Iinclude -I$(G) -I. -D_GNU_SOURCE
LDLIBS  := -ldnnl -l:libprotobuf-c.a -l:libz.a -lm -ldl -pthread

PROTO   := $(wildcard proto/*.proto)
PB_C    := $(PROTO:proto/%.proto=$(G)/proto/%.pb-c.c)
PB_H    := $(PB_C:.c=.h)
ALL_C   := $(sort $(shell find src -name '*.c'))
TEST_C  := $(filter %_test.c,$(ALL_C)) $(sort $(wildcard tests/harness/*.c))
LIB_C   := $(filter-out %_test.c src/cli/% src/net/grpc/% src/net/zookeeper/% src/group/mpi/% src/exec/opencl/driver/% src/ops/image/jpeg/% src/ops/string/icu/%,$(ALL_C))
CLI_C   := $(filter src/cli/%,$(filter-out %_test.c,$(ALL_C)))
LIB_O   := $(LIB_C:%.c=$(B)/%.o) $(PB_C:$(G)/%.c=$(B)/gen/%.o)
TEST_O  := $(TEST_C:%.c=$(B)/%.o)
CLI_O   := $(CLI_C:%.c=$(B)/%.o)

# gRPC and OpenSSL are known to this library alone, which is opened when they are first needed (src/net/library.h).
# What it needs of the rest it has a copy of.
NET_C   := $(filter src/net/grpc/%,$(filter-out %_test.c,$(ALL_C))) src/net/message.c src/net/task_name.c src/net/keys.c src/net/listen_check.c \
           $(addprefix src/base/,bytes.c clock.c file.c log.c memory.c status.c str.c thread.c vec.c writer.c)
NET_O   := $(NET_C:%.c=$(B)/%.o)
NET_SO  := $(B)/lib/libmillrace-net.so

# Likewise ZooKeeper's client (src/net/naming.h); where its header is not installed, the library is not built.
ZK_C    := $(filter src/net/zookeeper/%,$(filter-out %_test.c,$(ALL_C))) src/net/naming.c \
           $(addprefix src/base/,clock.c log.c memory.c status.c str.c thread.c vec.c)
ZK_O    := $(ZK_C:%.c=$(B)/%.o)
ZK_SO   := $(if $(wildcard /usr/include/zookeeper/zookeeper.h /usr/local/include/zookeeper/zookeeper.h),$(B)/lib/libmillrace-zookeeper.so)

# Likewise MPI (src/group/mpi.h), where its header is.
MPI_H   := $(firstword $(wildcard /usr/lib/$(shell uname -m)-linux-gnu/openmpi/include/mpi.h /usr/include/mpi.h /usr/local/include/mpi.h))
MPI_C   := $(filter src/group/mpi/%,$(ALL_C)) $(addprefix src/base/,clock.c memory.c status.c str.c thread.c)
MPI_O   := $(MPI_C:%.c=$(B)/%.o)
MPI_SO  := $(if $(MPI_H),$(B)/lib/libmillrace-mpi.so)

# Likewise OpenCL and CLBlast, where their headers are (src/exec/opencl/driver.h).
CL_C    := $(filter src/exec/opencl/driver/%,$(ALL_C)) $(addprefix src/base/,clock.c log.c map.c memory.c siphash.c status.c str.c thread.c)
CL_O    := $(CL_C:%.c=$(B)/%.o)
CL_SO   := $(if $(wildcard /usr/include/CL/cl.h),$(if $(wildcard /usr/include/clblast_c.h),$(B)/lib/libmillrace-opencl.so))

# Likewise libjpeg (src/ops/image/jpeg.h), where its header is.
IMAGE_C := $(filter src/ops/image/jpeg/%,$(ALL_C)) $(addprefix src/base/,memory.c status.c str.c)
IMAGE_O := $(IMAGE_C:%.c=$(B)/%.o)
IMAGE_SO := $(if $(wildcard /usr/include/jpeglib.h /usr/local/include/jpeglib.h),$(B)/lib/libmillrace-image.so)

# Likewise ICU (src/ops/string/icu.h), where its header is.
ICU_C   := $(filter src/ops/string/icu/%,$(ALL_C))
ICU_O   := $(ICU_C:%.c=$(B)/%.o)
ICU_SO  := $(if $(wildcard /usr/include/unicode/ucnv.h /usr/local/include/unicode/ucnv.h),$(B)/lib/libmillrace-icu.so)

# The extension of Python, where an interpreter with its headers and numpy is.  PYTHON's own word counts, not the path's.
PY_INCLUDE := $(shell $(PYTHON) -c 'import sysconfig, numpy, os; d = sysconfig.get_path("include"); \
    os.path.exists(d + "/Python.h") and print("-isystem", d, "-isystem", numpy.get_include())' 2>/dev/null)
PY_C    := $(sort $(wildcard python/core/*.c))
PY_O    := $(PY_C:%.c=$(B)/%.o)
PY_DIR  := $(B)/share/millrace/python
PY_SO   := $(if $(PY_INCLUDE),$(PY_DIR)/_millrace.so)

SO      := $(B)/lib/libtensorflow.so.2
LIBA    := $(B)/lib/libmillrace.a
UNIT    := $(B)/test
CLI     := $(B)/bin/millrace

# A library of our own that lacks something must fail here, not when it is opened; sanitizers bring their symbols at run time.
WHOLE := $(if $(SAN),,-Wl,-z,defs)

q := $(if $(filter 0,$(V)),@)
say = $(if $(filter 0,$(V)),@printf '  %-5s %s\n' $(1) $(2))

.PHONY: all lib deps-run deps-python deps-test deps-bench help clean unit
all: lib $(CLI) python         ## build the library, the millrace command and the Python package
lib: $(SO) $(LIBA) $(NET_SO) $(ZK_SO) $(MPI_SO) $(CL_SO) $(IMAGE_SO) $(ICU_SO)
	$(if $(CL_SO),,@echo "  no OpenCL: GPUs need the packages ocl-icd-opencl-dev, opencl-headers and libclblast-dev")
	$(if $(IMAGE_SO),,@echo "  no JPEG: it needs the package libjpeg-dev")
	$(if $(ICU_SO),,@echo "  no encodings but Unicode and some code pages: SHIFT-JIS and others need the package libicu-dev")

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
CL_TEXT := src/exec/opencl/prelude.cl $(filter-out %_test.c,$(filter src/ops/%,$(ALL_C))) $(sort $(shell find src/ops -name '*.cl'))
$(G)/kernels_cl.inc: tools/cl-kernels $(CL_TEXT)
	@mkdir -p $(@D)
	@tools/cl-kernels $(CL_TEXT) > $@.tmp
	@cmp -s $@.tmp $@ || mv $@.tmp $@; rm -f $@.tmp; touch $@

# All messages, for front ends that make theirs at run time (src/capi/messages.c).
$(G)/messages.inc: tools/message-table $(PB_H)
	@tools/message-table $(PB_H) > $@.tmp
	@cmp -s $@.tmp $@ || mv $@.tmp $@; rm -f $@.tmp; touch $@

GEN := $(PB_H) $(G)/messages.inc $(G)/kernels_cl.inc $(G)/ops.inc $(G)/op_families.inc $(G)/tests.inc $(G)/commands.inc

# ---- compile and link ---------------------------------------------------------------------------
$(B)/%.o: %.c | $(GEN)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# Products of floats may multiply and add in one: oneDNN, the other way to make them, does so too.
$(B)/src/ops/linalg/tiles.o: CFLAGS += -ffp-contract=fast

$(B)/gen/%.o: $(G)/%.c | $(GEN)
	@mkdir -p $(@D)
	$(q)$(CC) $(CPPFLAGS) $(CFLAGS) -Os -ffunction-sections -w -MMD -MP -c $< -o $@

# Hidden visibility does not reach what the compiler makes by itself (resolvers of target_clones).
$(G)/exports.map: tools/exported-names $(shell find include -name '*.h')
	@mkdir -p $(@D)
	@names=$$(tools/exported-names) && { echo '{ global:'; echo "$$names" | sed 's/$$/;/'; echo 'local: *; };'; } > $@

$(SO): $(LIB_O) $(G)/exports.map
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libtensorflow.so.2 -Wl,--version-script=$(G)/exports.map -Wl,--exclude-libs,ALL -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections \
	    -o $@ $(LIB_O) $(LDFLAGS) $(LDLIBS)
	@for l in libtensorflow.so libtensorflow_framework.so libtensorflow_framework.so.2 libmillrace.so; do \
	    ln -sf libtensorflow.so.2 $(@D)/$$l; done

$(NET_SO): $(NET_O)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@echo '{ global: mr_net_library_get; local: *; };' > $(B)/net.map
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libmillrace-net.so $(WHOLE) -Wl,--version-script=$(B)/net.map -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections \
	    -o $@ $(NET_O) $(LDFLAGS) -lgrpc -lgpr -lcrypto -pthread

$(B)/lib/libmillrace-zookeeper.so: $(ZK_O)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@echo '{ global: mr_naming_library_get; local: *; };' > $(B)/zookeeper.map
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libmillrace-zookeeper.so $(WHOLE) -Wl,--version-script=$(B)/zookeeper.map -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections \
	    -o $@ $(ZK_O) $(LDFLAGS) -lzookeeper_mt -pthread

$(filter $(B)/src/group/%,$(MPI_O)): CPPFLAGS += $(addprefix -isystem ,$(filter-out /usr/include,$(patsubst %/,%,$(dir $(MPI_H)))))
$(B)/lib/libmillrace-mpi.so: $(MPI_O)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@echo '{ global: mr_mpi_library_get; local: *; };' > $(B)/mpi.map
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libmillrace-mpi.so $(WHOLE) -Wl,--version-script=$(B)/mpi.map -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections \
	    -o $@ $(MPI_O) $(LDFLAGS) -lmpi -pthread

$(B)/lib/libmillrace-opencl.so: $(CL_O)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@echo '{ global: mr_cl_driver_get; local: *; };' > $(B)/opencl.map
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libmillrace-opencl.so $(WHOLE) -Wl,--version-script=$(B)/opencl.map -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections \
	    -o $@ $(CL_O) $(LDFLAGS) -lOpenCL -lclblast -pthread

$(B)/lib/libmillrace-image.so: $(IMAGE_O)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@echo '{ global: mr_jpeg_get; local: *; };' > $(B)/image.map
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libmillrace-image.so $(WHOLE) -Wl,--version-script=$(B)/image.map -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections \
	    -o $@ $(IMAGE_O) $(LDFLAGS) -ljpeg

$(B)/lib/libmillrace-icu.so: $(ICU_O)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@echo '{ global: mr_icu_get; local: *; };' > $(B)/icu.map
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libmillrace-icu.so $(WHOLE) -Wl,--version-script=$(B)/icu.map -Wl,-z,now -Wl,-z,nodelete -Wl,--gc-sections \
	    -o $@ $(ICU_O) $(LDFLAGS) -licuuc

# In the build tree the package is a link, so that a changed file of it needs no build.
.PHONY: python
python: $(PY_SO)               ## build the Python package
	$(if $(PY_SO),,@echo "  no Python package: it needs the packages python3-dev and python3-numpy")
$(PY_O): CPPFLAGS += $(PY_INCLUDE)
$(PY_DIR)/_millrace.so: $(PY_O) $(SO)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	@for d in millrace tensorflow; do ln -sfn ../../../../../python/$$d $(@D)/$$d; done
	$(q)$(CC) $(CFLAGS) -shared -o $@ $(PY_O) $(LDFLAGS) -L$(B)/lib -l:libtensorflow.so.2 -Wl,-rpath,'$$ORIGIN/../../../lib' -pthread

$(LIBA): $(LIB_O)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	@rm -f $@
	$(q)ar rcs $@ $(LIB_O)

# It offers what the library exports: libraries of devices (MILLRACE_DEVICES) register with it as with any program.
$(CLI): $(CLI_O) $(LIBA)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(q)$(CC) $(CFLAGS) -pie -rdynamic -o $@ $(CLI_O) -Wl,--whole-archive $(LIBA) -Wl,--no-whole-archive $(LDFLAGS) $(LDLIBS)

# Unit tests see the insides, so they link the objects.
TESTED_O := $(LIB_O) $(filter-out %/main.o $(B)/src/cli/cmd_%,$(CLI_O))
$(UNIT): $(TEST_O) $(TESTED_O) | $(NET_SO) $(ZK_SO) $(MPI_SO) $(CL_SO) $(IMAGE_SO) $(ICU_SO)
	$(call say,LINK,$@)
	$(q)$(CC) $(CFLAGS) -rdynamic -o $@ $(TEST_O) $(TESTED_O) $(LDFLAGS) $(LDLIBS)

unit: $(UNIT)                  ## build and run the unit tests (T=part of a name)
	$(q)$(UNIT) $(T)

# ---- fuzzing: tests/fuzz ------------------------------------------------------------------------
# Always with sanitizers, whatever else is being built.
FUZZ_C   := $(sort $(wildcard tests/fuzz/*.c)) src/ops/trial_test.c src/graph/flow_builder_test.c src/graph/random_program_test.c
FUZZ_O   := $(FUZZ_C:%.c=$(B)/%.o)
FUZZ     := $(B)/fuzz
FUZZ_SAN := address,undefined
fuzz_with = $(MAKE) --no-print-directory SAN=$(FUZZ_SAN) fuzz-run FUZZ_ARGS="$(1)"

$(FUZZ): $(FUZZ_O) $(LIB_O) | $(IMAGE_SO) $(ICU_SO)
	$(call say,LINK,$@)
	$(q)$(CC) $(CFLAGS) -rdynamic -o $@ $(FUZZ_O) $(LIB_O) $(LDFLAGS) $(LDLIBS)

.PHONY: fuzz fuzz-quick fuzz-run fuzz-selftest fuzz-selftest-run fuzz-coverage
fuzz:                          ## every parser, every op and the services of a cluster, some million inputs under sanitizers
	$(q)+$(call fuzz_with,all)
fuzz-quick:                    ## a hundredth of that, the same inputs every time
	$(q)+$(call fuzz_with,all --percent 1)
fuzz-run: $(FUZZ)
	$(q)$(FUZZ) $(FUZZ_ARGS)

# The script builds fuzzers with a bug in them out of the same objects, by the same flags.
fuzz-selftest:                 ## plant known bugs, one at a time: the fuzzers must find each
	$(q)+$(MAKE) --no-print-directory SAN=$(FUZZ_SAN) fuzz-selftest-run
fuzz-selftest-run: $(FUZZ)
	$(file >$(FUZZ).objects)$(foreach o,$(FUZZ_O) $(LIB_O),$(file >>$(FUZZ).objects,$(o)))
	$(q)COMPILE="$(CC) $(CPPFLAGS) $(CFLAGS) -c" LINK="$(CC) $(CFLAGS) -rdynamic" LIBS="$(LDFLAGS) $(LDLIBS)" \
	    tests/fuzz/selftest $(B)

fuzz-coverage: $(FUZZ)         ## how many lines of each parser its fuzz target reaches (RUNS=30000)
	$(file >$(FUZZ).objects)$(foreach o,$(FUZZ_O) $(LIB_O),$(file >>$(FUZZ).objects,$(o)))
	$(q)tools/fuzz-coverage $(FUZZ).objects "$(LDFLAGS) $(LDLIBS)" $(RUNS)

# ---- refused memory: tests/memory ---------------------------------------------------------------
MEMORY   := $(B)/memory
MEMORY_O := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/memory/*.c)) src/ops/trial_test.c)
$(MEMORY): $(MEMORY_O) $(LIB_O)
	$(call say,LINK,$@)
	$(q)$(CC) $(CFLAGS) -rdynamic -o $@ $(MEMORY_O) $(LIB_O) $(LDFLAGS) $(LDLIBS)

.PHONY: test-memory memory-run
test-memory:                   ## refuse every allocation of many scenarios, one at a time, under sanitizers (T=part of a name)
	$(q)+$(MAKE) --no-print-directory SAN=$(FUZZ_SAN) memory-run
memory-run: $(MEMORY)
	$(q)rm -rf $(B)/memory-runs && mkdir -p $(B)/memory-runs && cd $(B)/memory-runs && $(abspath $(MEMORY)) $(if $(T),"$(T)")

# ---- simulation: tests/sim ----------------------------------------------------------------------
SIM   := $(B)/sim
SIM_O := $(B)/tests/sim/main.o
$(SIM): $(SIM_O) $(LIB_O)
	$(call say,LINK,$@)
	$(q)$(CC) $(CFLAGS) -o $@ $(SIM_O) $(LIB_O) $(LDFLAGS) $(LDLIBS)

.PHONY: sim-soak sim-selftest
sim-soak: $(SIM)               ## simulated clusters with all kinds of faults (SEEDS=100000)
	$(q)$(SIM) --runs $(or $(SEEDS),100000) $(if $(FROM),--from $(FROM))
	$(q)$(SIM) --ps --runs $(or $(SEEDS),100000) $(if $(FROM),--from $(FROM))

# The script builds simulations with a bug in them out of the same objects, by the same flags.
sim-selftest: $(SIM)           ## plant known bugs in dist/, one at a time: the simulation must find each
	$(file >$(SIM).objects)$(foreach o,$(SIM_O) $(LIB_O),$(file >>$(SIM).objects,$(o)))
	$(q)COMPILE="$(CC) $(CPPFLAGS) $(CFLAGS) -c" LINK="$(CC) $(CFLAGS)" LIBS="$(LDFLAGS) $(LDLIBS)" \
	    tests/sim/selftest $(B)

# Where the numbers of src/sim/train/calibration.c come from.
CALIBRATE := $(B)/calibrate
$(CALIBRATE): $(B)/tests/sim/calibrate.o $(LIB_O)
	$(call say,LINK,$@)
	$(q)$(CC) $(CFLAGS) -o $@ $< $(LIB_O) $(LDFLAGS) $(LDLIBS)

.PHONY: calibrate
calibrate: $(CALIBRATE)        ## fit the training simulator to the ends of published curves, show all of them (CALIBRATE_ARGS=--table: no fit)
	$(q)$(CALIBRATE) $(CALIBRATE_ARGS)

deps-run: ; @tools/deps run
deps-python: ; @tools/deps python
deps-test: ; @tools/deps test
deps-bench: ; @tools/deps bench

# ---- using it -----------------------------------------------------------------------------------
# Examples see what a user sees: the public headers and the shared library.
$(B)/examples/%: examples/%.c examples/options.h $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) -std=c11 -g -O2 -Wall -Wextra -Werror -Iinclude $< -o $@ -L$(B)/lib -ltensorflow -Wl,-rpath,'$$ORIGIN/../lib' -lm

# Soaks and the benchmarks that use the library as a program does.
$(B)/soak/%: tests/soak/%.c $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) -std=gnu11 -g -O2 -Wall -Wextra -Werror $(if $(SAN),-fsanitize=$(SAN)) -Iinclude $< -o $@ -L$(B)/lib -ltensorflow -Wl,-rpath,'$$ORIGIN/../lib'

.PHONY: run examples install test check layers bench bench-ops test-oracle soak-save soak-threads soak-kill soak-ps soak-downpour soak-zookeeper docs docs-check
soak-save: $(B)/soak/save      ## kill -9 at 300 instants while saving
	$(q)$(B)/soak/save --kills $(or $(KILLS),300) $(if $(SEED),--seed $(SEED))

soak-threads: $(B)/soak/threads ## random steps from many threads: kernels that wait, functions, parallel maps, queues; nothing hangs (STEPS=1000000 SEED=n)
	$(q)$(B)/soak/threads --steps $(or $(STEPS),1000000) $(if $(SEED),--seed $(SEED))

SOAK_KILL := $(B)/soak/kill $(B)/soak/kill_program
soak-kill: $(SOAK_KILL) $(CLI) $(NET_SO) ## kill -9 of random tasks while clusters train (RUNS=30 KILLS=10 SEED=n)
	$(q)$(B)/soak/kill --launcher $(CLI) --program $(B)/soak/kill_program --runs $(or $(RUNS),30) --kills $(or $(KILLS),10) \
	    $(if $(SEED),--seed $(SEED))

soak-ps: $(B)/soak/ps $(NET_SO) ## kill -9 of parameter servers under pushes: nothing acknowledged is lost or doubled (KILLS=200 SEED=n FREEZE=1: some stand still too; JUDGE=0: not by the clock)
	$(q)$(B)/soak/ps --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED)) $(if $(JUDGE),--judge $(JUDGE)) $(if $(FREEZE),--freeze $(FREEZE))

soak-downpour: $(B)/soak/downpour $(NET_SO) ## kill -9 of Downpour replicas: the longest pause of the others, beside that of times without kills (KILLS=50 SEED=n)
	$(q)$(B)/soak/downpour --kills $(or $(KILLS),50) $(if $(SEED),--seed $(SEED))

soak-zookeeper: all $(B)/soak/kill_program ## kill -9 and worse of tasks that come back at other ports and are found by ZooKeeper (RUNS=20 SEED=n)
	$(q)$(PYTHON) -B tests/soak/zookeeper.py $(B) --runs $(or $(RUNS),20) $(if $(SEED),--seed $(SEED))

EXAMPLES := $(patsubst examples/%.c,$(B)/examples/%,$(wildcard examples/*.c))
examples: $(EXAMPLES)          ## build the examples

# One parameter server and two workers with keys of their own, over shared memory; or one process with a session.
RUN := $(if $(filter local,$(MODE)),mnist,cluster_mnist)
run: deps-run                  ## train the MNIST network on a local cluster, MODE=local in one process (RUN_ARGS are passed on)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(B)/examples/$(RUN) $(if $(filter local,$(MODE)),,$(CLI) $(NET_SO))
	$(q)$(if $(filter local,$(MODE)),,$(CLI) launch --ps 1 --workers 2 --bare-chief --quiet -- )$(B)/examples/$(RUN) \
	    --dir "$$(tools/mnist)" $(RUN_ARGS)

.PHONY: run-python
run-python: deps-python        ## train an MNIST network from Python (SCRIPT=examples/python/mnist.py; RUN_ARGS are passed on)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all
	$(q)MNIST_DIR="$$(tools/mnist)" PYTHON=$(PYTHON) $(CLI) python $(or $(SCRIPT),examples/python/mnist.py) $(RUN_ARGS)

install: lib $(CLI) python     ## copy library, headers, command and Python package to PREFIX
	@mkdir -p $(PREFIX)/lib/pkgconfig $(PREFIX)/include $(PREFIX)/bin
	cp -P $(B)/lib/*.so* $(LIBA) $(PREFIX)/lib/
	cp -R include/tensorflow include/millrace $(PREFIX)/include/
	cp $(CLI) $(PREFIX)/bin/
	sed -e 's|@PREFIX@|$(abspath $(PREFIX))|' -e 's|@VERSION@|$(VERSION)|' tools/millrace.pc.in > $(PREFIX)/lib/pkgconfig/millrace.pc
	sed -e 's|Name: Millrace|Name: tensorflow|' $(PREFIX)/lib/pkgconfig/millrace.pc > $(PREFIX)/lib/pkgconfig/tensorflow.pc
	$(if $(PY_SO),$(install_python))

# What Python makes of the files is made here, for a user may not write into PREFIX.
define install_python
mkdir -p $(PREFIX)/share/millrace/python
rm -rf $(PREFIX)/share/millrace/python/millrace $(PREFIX)/share/millrace/python/tensorflow
cp -R python/millrace python/tensorflow $(PY_SO) $(PREFIX)/share/millrace/python/
find $(PREFIX)/share/millrace/python -name __pycache__ -prune -exec rm -rf {} +
$(PYTHON) -m compileall -q $(PREFIX)/share/millrace/python
endef

# ---- measuring it -------------------------------------------------------------------------------
# One program a question; they see the insides, so they link the static library.
$(B)/bench/%: bench/%.c $(wildcard bench/*.h) $(LIBA) | $(NET_SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) $(CPPFLAGS) $(CFLAGS) $< -o $@ $(LIBA) $(LDFLAGS) $(LDLIBS)

# Like a client: what loading the library costs is part of what it measures.
$(B)/bench/import: bench/import.c $(SO)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(q)$(CC) $(CFLAGS) -Iinclude -o $@ $< -L$(B)/lib -l:libtensorflow.so.2 -Wl,-rpath,$(abspath $(B))/lib
$(B)/bench/%_lib.so: bench/%_lib.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) $(CPPFLAGS) -std=gnu11 -g -O2 -fPIC -shared -Wall -Wextra -Werror $< -o $@

.PHONY: bench-group
bench-group: deps-bench        ## all-reduce, push and pull beside gloo and Open MPI, quiet and with loaded cores (ROUNDS=3); the ways of collective operations beside each other
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(addprefix $(B)/bench/,all_reduce push_pull collectives $(if $(MPI_H),mpi_all_reduce)) $(NET_SO)
	$(q)bench/group_peers $(B)/bench $(PYTHON)
	$(q)$(B)/bench/collectives
$(B)/bench/mpi_all_reduce: bench/mpi_all_reduce.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CC) -std=gnu11 -g -O2 -Wall -Wextra -Werror -isystem $(dir $(MPI_H)) $< -o $@ -lmpi

BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(filter-out %_lib.c bench/mpi_%,$(wildcard bench/*.c))) \
           $(patsubst bench/%.c,$(B)/bench/%.so,$(wildcard bench/*_lib.c))
bench: deps-bench              ## measure: lines of `name value unit`, ratios over 1 mean we are faster
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
bench-placement: $(B)/bench/placement ## placement by cost: random graphs on simulated devices, predicted and measured (GRAPHS=40)
	$(q)$(B)/bench/placement $(GRAPHS)

.PHONY: bench-scaling
bench-scaling: deps-run        ## images/s of 1, 2 and 3 workers on this machine, beside what the simulator predicts
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all examples $(addprefix $(B)/bench/,scaling master_steps push_pull)
	$(q)$(B)/bench/scaling $(B) "$$(tools/mnist)"

.PHONY: bench-train
bench-train: deps-run          ## training over many workers: stragglers, large tables, pipelines, Downpour and a batch system's driver, Sandblaster, all-reduce
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
bench-ps-traffic: deps-run     ## sparse logistic regression over parameter servers: bytes that filters save, time that bounded delay saves
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(PS_TRAFFIC) $(B)/bench/count_min
	$(q)$(B)/bench/count_min
	$(q)$(PYTHON) bench/ps_traffic.py $(B)
test-ps-traffic: $(PS_TRAFFIC)
	$(q)$(PYTHON) bench/ps_traffic.py $(B) --small

.PHONY: bench-fed
bench-fed: deps-run            ## federated averaging on MNIST as in its paper: 99 % within 30 rounds, 97 % where clients know two digits (FED_ARGS are passed on)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(B)/examples/federated
	$(q)$(B)/examples/federated --dir "$$(tools/mnist)" --rounds 30 --target 99 $(FED_ARGS)
	$(q)$(B)/examples/federated --dir "$$(tools/mnist)" --non-iid --rounds 60 --target 97 $(FED_ARGS)

bench-ops: deps-bench          ## single ops beside a copy of memory and beside PyTorch, a line each
	$(q)$(MAKE) --no-print-directory -j$$(nproc) $(B)/bench/ops
	$(q)bench/op_peers $(B)/bench $(PYTHON)

# ---- programs of clients ------------------------------------------------------------------------
# They are compiled against include/ alone and linked with the shared library, as found in public;
# NAME_lib.c is a library of ops that they load.
CLIENT_C   := $(filter-out tests/capi/headers_c.c %_lib.c,$(sort $(wildcard tests/capi/*.c)))
CLIENT     := $(CLIENT_C:tests/capi/%.c=$(B)/capi/%) $(patsubst tests/capi/%_lib.c,$(B)/capi/%_lib.so,$(wildcard tests/capi/*_lib.c))
CLIENT_CC   = $(CC) -std=gnu11 -g -O1 -Wall -Wextra -Werror $(if $(SAN),-fsanitize=$(SAN)) -Iinclude -pthread

$(B)/capi/%: tests/capi/%.c tests/capi/client.h $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CLIENT_CC) $< -o $@ -L$(B)/lib -ltensorflow -Wl,-rpath,'$$ORIGIN/../lib' -lm

$(B)/capi/%_lib.so: tests/capi/%_lib.c $(SO)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(q)$(CLIENT_CC) -fPIC -shared $< -o $@ -L$(B)/lib -ltensorflow -Wl,-rpath,'$$ORIGIN/../lib'

.PHONY: test-capi
test-capi: $(CLIENT)           ## run the programs of clients, check the headers and what is exported
	$(q)tests/capi/run $(B) $(filter-out %.so,$(CLIENT))

.PHONY: test-cli
test-cli: $(CLI) $(NET_SO) $(PY_SO) $(CALIBRATE) $(ZK_SO) $(IMAGE_SO) $(ICU_SO) $(B)/soak/kill_program $(EXAMPLES) ## the millrace command: launch here, over ssh, in mpirun and Slurm; serve; keys (T=part of a name)
	$(q)PYTHON=$(PYTHON) tests/cli/run $(B) $(T)

.PHONY: test-python
test-python: $(CLI) $(NET_SO) python ## the Python package (T=part of a name)
	$(q)PYTHON=$(PYTHON) tests/python/run $(B) $(T)

.PHONY: test-examples
test-examples: $(CLI) $(NET_SO) python $(addprefix $(B)/examples/,serve downpour sandblaster batch_driver next_word pipeline) ## run the examples to their stated results (T=part of a name)
	$(q)PYTHON=$(PYTHON) MNIST_DIR="$$(tools/mnist)" $(PYTHON) -B tests/examples/run $(B) $(T)

.PHONY: python-coverage
python-coverage: python        ## how much of what public TF 1.x scripts use is there (COVERAGE_ARGS=--missing names the rest)
	$(q)PYTHONPATH=$(PY_DIR) $(PYTHON) -B tools/python-coverage $(COVERAGE_ARGS)

# ---- checking it --------------------------------------------------------------------------------
test: deps-test                ## everything that must hold for a change
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

RUN_DOCS := docs/sim.md docs/tour.md $(if $(PY_SO),docs/python.md)
docs: $(CLI) python            ## write docs/ops/ from the op registry, the diagrams, and the output of commands into the pages that show it
	$(q)rm -f docs/ops/*.md
	$(q)$(CLI) ops --markdown docs/ops
	$(q)$(PYTHON) tools/diagrams
	$(q)$(PYTHON) tools/run-docs $(B) $(RUN_DOCS)

docs-check: $(CLI) python      ## check that generated pages, diagrams and shown output are up to date, and that files named in READMEs exist
	$(q)rm -rf $(B)/docs-ops
	$(q)$(CLI) ops --markdown $(B)/docs-ops
	$(q)diff -rq $(B)/docs-ops docs/ops || { echo "docs/ops is out of date: run make docs"; exit 1; }
	$(q)$(PYTHON) tools/diagrams --check
	$(q)$(PYTHON) tools/doc-paths
	$(q)$(PYTHON) tools/run-docs --check $(B) $(RUN_DOCS)

test-oracle: deps-bench        ## our results against numpy, scipy and PyTorch (T=part of a name, SEED=n)
	$(q)$(MAKE) --no-print-directory -j$$(nproc) lib
	$(q)MILLRACE_LIB=$(SO) PYTHONPATH=tests/oracle OPENBLAS_NUM_THREADS=1 $(PYTHON) -W ignore tests/oracle/run.py $(T)

.PHONY: golden-check
golden-check:                  ## tests/golden has what tests/golden/make.py writes
	$(q)$(PYTHON) -B tests/golden/make.py --check

layers:                        ## check who includes whom
	$(q)tools/layers && echo "layers: as src/LAYERS says"

check: deps-test               ## what a change passes: both compilers, layers, all sanitizers
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all unit CC=gcc
	$(q)$(MAKE) --no-print-directory -j$$(nproc) all unit CC=clang
	$(q)$(MAKE) --no-print-directory layers
	$(q)$(MAKE) --no-print-directory -j$$(nproc) unit SAN=address,undefined
	$(q)$(MAKE) --no-print-directory -j$$(nproc) unit SAN=thread

clean:                         ## remove build/
	rm -rf build

help:                          ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | awk -F'\t' '{printf "  %-16s %s\n", $$1, $$2}'

-include $(LIB_O:.o=.d) $(PY_O:.o=.d) $(NET_O:.o=.d) $(ZK_O:.o=.d) $(MPI_O:.o=.d) $(CL_O:.o=.d) $(IMAGE_O:.o=.d) $(ICU_O:.o=.d) $(TEST_O:.o=.d) $(CLI_O:.o=.d) $(FUZZ_O:.o=.d) $(SIM_O:.o=.d) $(B)/tests/sim/calibrate.d
