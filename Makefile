# Builds, tests and installs Holdfast. `make help` lists the targets.
#
# One make reads everything, so it sees every dependency. All output is below $(B); each value of B is a tree of its own
# (those of `make ci` are below build/). The place of a source decides what it becomes, so a new file needs no change
# here:
#
#   lib/LAYER/*.c, lib/LAYER/scripts/*.lua     -> lib/libLAYER.a       one archive a layer; scripts may include
#                                                                      lib/LAYER/scripts/include/*.lua
#   worker/*.c, worker/*/*.c, worker/*/*/*.c    -> lib/libworker.a     and with main.c holdfast; without EXTRAS
#                                                                      lib/libcore.a and core/holdfast
#   worker/dry_run/main.c                      -> holdfast-dry-run
#   jobs/*.c, tests/plugins/*.c (and */*.c)    -> jobs/*.so, tests/plugins/*.so (and */*.so)
#   jobs/fence/*.c                             -> lib/libfence.a       for jobs, installed as libholdfast-fence.a
#   jobs/template/LANGUAGE/*                   -> lib/libworker.a      as texts for `holdfast plugin new`
#   worker/**/*.css, *.js                      -> lib/libworker.a      as texts, for pages
#   tests/{unit,integration,chaos}/test_*.c    -> tests/{unit,integration,chaos}_tests, and tests/KIND/test_* lead there
#   tests/virtual/test_*.c                     -> tests/virtual_tests  run in the simulated world; with REAL=1, and under
#                                                                      ThreadSanitizer, with real servers instead
#   tests/sim/test_*.c, and the like of ALONE  -> tests/sim/test_*     a program each
#   worker/dry_run/preload/*.c                 -> preload/*.so         preloaded into servers of dry runs and tests
#   tests/support/*.c                          -> lib/libsupport.a     linked into every test and benchmark
#   tests/sim/server/*.c                       -> lib/libsim.a     the simulations, linked into every test
#   the other tests/chaos/*.c                  -> lib/libsupport.a     shared by the tests with killed processes
#   tests/sim/{world,server,lock,fleet,scene}/*.c                       take the place of loop, clocks, threads and
#                                                                      sockets there, and in tests/sim/test_*
#   tests/fuzz/fuzz_*.c                        -> tests/unit/test_fuzz_corpus, and with libFuzzer tests/fuzz/*
#   tests/bench/NAME_WITH_UNDERSCORES.c        -> bench/name-with-hyphens
#
# The program with fault points (lib/base/fault.h) is $(B)/faults/holdfast: few of its objects differ.
#
# V=1 shows the commands, WERROR=-Werror refuses warnings. CC=clang and SANITIZE=address,undefined (or thread) need a B
# of their own. Only targets that begin with scripts/setup install packages.

B        ?= build
PREFIX   ?= /usr/local
VERSION  := 0.9.0
SOVERSION := 0
# CI refuses warnings. New warnings of a user's newer compiler must not stop the build.
WERROR   ?=
SANITIZE ?=
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(strip $(B)),)
$(error B, the directory for all output, must not be empty)
endif
# make takes a blank for the end of a name, and so do those who read pkg-config's words.
one_word = $(if $(filter 1,$(words x$($(1))x)),,$(error $(1) is "$($(1))": Holdfast cannot be built for or installed \
    into a directory with a blank in its name; take another one))
$(call one_word,B)$(call one_word,PREFIX)$(call one_word,DESTDIR)
MAKEFLAGS += --no-builtin-rules --no-print-directory
SHELL := /bin/bash
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

# --------------------------------------------------------------------------------------- packages
core_PACKAGES  := pkg-config $(firstword $(CC)) libuv hiredis libconfig jansson libssl libcrypto
full_PACKAGES  := $(core_PACKAGES) zlib
tests_PACKAGES := $(full_PACKAGES) sqlite3 libcurl cmocka lua5.1
MISSING := $(shell for p in pkg-config $(firstword $(CC)); do command -v $$p >/dev/null || echo $$p; done; \
             for p in $(filter-out pkg-config $(firstword $(CC)),$(tests_PACKAGES)); do pkg-config --exists $$p || echo $$p; done 2>/dev/null)
# Handlers whose library is missing.
LEFT_OUT := $(if $(filter libcurl,$(MISSING)),webhook) $(if $(filter sqlite3,$(MISSING)),sql transfer fence/sqlite)
LEFT_OUT := $(strip $(LEFT_OUT))

# ---------------------------------------------------------------------------------------- sources
LAYERS      := base redis redlock queue
JOBS        := $(filter-out $(LEFT_OUT:%=jobs/%.c),$(wildcard jobs/*.c))
FENCE       := $(filter-out $(LEFT_OUT:%=jobs/%.c),$(wildcard jobs/fence/*.c))
JOB_PARTS   := arguments webhook
part_sources = $(wildcard jobs/$(1)/*.c)
TEMPLATES   := $(wildcard jobs/template/*/*)
PAGE_TEXTS  := $(foreach kind,css js,$(wildcard worker/*/*.$(kind) worker/*/*/*.$(kind)))
# A fleet can do without these. The core has others instead, which define the same names.
EXTRAS      := worker/dry_run/% worker/history/% worker/print/page% worker/task/deflate.% \
    $(addprefix worker/commands/,$(patsubst %,command_%.c,dry_run plugin report run_handler serve top) \
        handler_run% pretended_lock% serve_% top_look% top_screen%)
INSTEAD     := worker/commands/left_out.c worker/task/deflate_stored.c
WORKER      := $(filter-out %/main.c worker/dry_run/preload/% $(INSTEAD),$(wildcard worker/*.c worker/*/*.c worker/*/*/*.c))
CORE        := $(filter-out $(EXTRAS),$(WORKER)) $(INSTEAD)
SUPPORT     := $(wildcard tests/support/*.c) $(filter-out tests/chaos/test_%,$(wildcard tests/chaos/*.c))
SIMULATION  := $(wildcard tests/sim/server/*.c)
WORLD       := $(wildcard tests/sim/world/*.c tests/sim/server/*.c tests/sim/lock/*.c tests/sim/fleet/*.c)
WORKLOAD    := tests/sim/workload.c
WORLD_TESTS := $(shell grep -lE '^.include "tests/sim/((world|lock|fleet)/|worker_fixture)' tests/sim/test_*.c)
SCENE       := $(wildcard tests/sim/scene/*.c)
TEST_KINDS  := unit sim virtual integration chaos
# ONLY='test_heap test_log' builds and runs only these.
TESTS       := $(foreach kind,$(TEST_KINDS),$(wildcard tests/$(kind)/test_*.c))
TESTS       := $(if $(ONLY),$(foreach name,$(ONLY),$(filter %/$(name).c,$(TESTS))),$(TESTS))
PLUGINS     := $(wildcard tests/plugins/*.c tests/plugins/*/*.c)
PRELOADS    := $(wildcard worker/dry_run/preload/*.c)
BENCHES     := $(wildcard tests/bench/*.c)
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TSAN_TESTS  ?= $(shell grep -v '^\#' tests/threads.list)

layer_sources = $(wildcard lib/$(1)/*.c)
layer_scripts = $(wildcard lib/$(1)/scripts/*.lua)
layer_includes = $(wildcard lib/$(1)/scripts/include/*.lua)
SCRIPTED    := $(foreach layer,$(LAYERS),$(if $(call layer_scripts,$(layer)),$(layer)))
GENERATED   := $(SCRIPTED:%=$(B)/generated/%/scripts.h)

object      = $(patsubst %.c,$(B)/obj/%.o,$(1))
layer_objects = $(call object,$(call layer_sources,$(1))) \
                $(if $(filter $(1),$(SCRIPTED)),$(B)/obj/generated/$(1)/scripts.o)
archive     = $(B)/lib/lib$(1).a

ARCHIVES    := $(foreach layer,$(LAYERS),$(call archive,$(layer)))
# In link order: the linker resolves a layer only with those to its right.
LINK_ORDER  := $(foreach layer,worker queue redlock redis base,$(call archive,$(layer)))
FAULTY      := $(B)/faults/holdfast
PROGRAM     := $(B)/holdfast
DRY_RUN     := $(B)/holdfast-dry-run
JOB_FILES   := $(JOBS:jobs/%.c=$(B)/jobs/%.so)
# Examples; the other jobs are handlers for production. A worker loads only those that it names.
EXAMPLES      := transfer render echo sleep
EXAMPLE_FILES := $(filter $(EXAMPLES:%=$(B)/jobs/%.so),$(JOB_FILES))
PLUGIN_FILES := $(PLUGINS:%.c=$(B)/%.so)
PRELOAD_FILES := $(PRELOADS:worker/dry_run/%.c=$(B)/%.so)
BENCH_FILES := $(foreach bench,$(BENCHES),$(B)/bench/$(subst _,-,$(basename $(notdir $(bench)))))
LIBREDLOCK  := $(if $(wildcard lib/redlock/*.c),$(B)/libredlock.so $(B)/libredlock.a)
LIBHOLDFAST := $(B)/libholdfast.so $(B)/libholdfast.a

# ----------------------------------------------------------------------------------- dependencies
# What misses a package complains when it is to be built, so that `make help`, `make clean` and the targets that begin with
# scripts/setup work on a bare machine.
once      = $(eval $(1) := $(2))$($(1))
need      = $(if $(filter $(MISSING),$(1)),$(error missing: $(filter $(MISSING),$(1)) -- run scripts/setup))
.PHONY: has-core has-full has-tests
has-core has-full has-tests: has-%:
	@:$(call need,$($*_PACKAGES))
# hiredis' own -I would put names such as "async.h" on the include path of all sources. They write <hiredis/hiredis.h>,
# so they need its parent.
PACKAGE_FLAGS = $(call need,$(core_PACKAGES))$(call once,PACKAGE_FLAGS,$(shell \
                  pkg-config --cflags $(filter-out pkg-config $(firstword $(CC)) hiredis $(MISSING),$(tests_PACKAGES)); \
                  pkg-config --cflags-only-other hiredis; echo -I$$(pkg-config --variable=includedir hiredis)))
libs_of      = $(shell pkg-config --libs $(1))
base_LIBS    = $(call once,base_LIBS,$(call libs_of,libuv) -pthread -lm)
redis_LIBS   = $(call once,redis_LIBS,$(call libs_of,hiredis libssl libcrypto))
worker_LIBS  = $(call once,worker_LIBS,$(call libs_of,libconfig jansson) -ldl)
zlib_LIBS    = $(call once,zlib_LIBS,$(call libs_of,zlib))
cmocka_LIBS  = $(call once,cmocka_LIBS,$(call libs_of,cmocka))
sqlite3_LIBS = $(call once,sqlite3_LIBS,$(call libs_of,sqlite3))
jansson_LIBS = $(call once,jansson_LIBS,$(call libs_of,jansson))
curl_LIBS    = $(call once,curl_LIBS,$(call libs_of,libcurl libcrypto))
ssl_LIBS     = $(call once,ssl_LIBS,$(call libs_of,libssl))
lua_LIBS     = $(call once,lua_LIBS,$(call libs_of,lua5.1))
LAYER_LIBS   = $(redis_LIBS) $(base_LIBS)
CORE_LIBS    = $(worker_LIBS) $(LAYER_LIBS)
PROGRAM_LIBS = $(zlib_LIBS) $(CORE_LIBS)
# Libraries that a job needs beyond libc, and a test beyond our own, by the name of its file.
arguments_LIBS = $(call archive,arguments) $(jansson_LIBS)
transfer_LIBS = $(arguments_LIBS) $(call archive,fence) $(sqlite3_LIBS)
render_LIBS  = $(arguments_LIBS)
sleep_LIBS   = $(arguments_LIBS)
webhook_LIBS = $(call archive,webhook) $(arguments_LIBS) $(curl_LIBS)
sql_LIBS     = $(arguments_LIBS) $(call archive,fence) $(sqlite3_LIBS)
exec_LIBS    = $(arguments_LIBS)
test_transfer_LIBS = $(sqlite3_LIBS)
test_transfer_fence_LIBS = $(sqlite3_LIBS)
test_fence_sqlite_LIBS = $(sqlite3_LIBS)
test_arguments_LIBS = $(jansson_LIBS)
test_webhook_LIBS = $(curl_LIBS)
test_webhook_tls_LIBS = $(curl_LIBS) $(ssl_LIBS)
test_sql_LIBS = $(sqlite3_LIBS)
test_redis_model_LIBS = $(lua_LIBS)
test_redis_model_random_LIBS = $(lua_LIBS)
test_redis_model_traffic_LIBS = $(lua_LIBS)
test_simulated_server_LIBS = $(lua_LIBS)
FUZZ_OBJECTS = $(FUZZ_TARGETS:%=$(B)/obj/tests/fuzz/fuzz_%.o)
test_fuzz_corpus_LIBS = $(LINK_ORDER)

# ---------------------------------------------------------------------------------- test programs
# The tests of a kind are one program (tests/main.c), and so are those that ONLY names: otherwise each change of a layer
# would link hundreds of programs. Separate programs are the simulations, tests with libraries of their own
# (test_NAME_LIBS), and tests that define global functions, such as replacements for libc's:
ALONE       := test_deflate_stored test_fence_file_killed test_http_server test_log test_loop test_node_names
is_alone    = $(filter tests/sim/%,$(1))$(filter $(ALONE),$(2))$(filter-out undefined,$(origin $(2)_LIBS))
TESTS_ALONE := $(foreach test,$(TESTS),$(if $(call is_alone,$(test),$(basename $(notdir $(test)))),$(test)))
TESTS_VIRTUAL := $(filter tests/virtual/%,$(TESTS))
TESTS_TOGETHER := $(filter-out $(TESTS_ALONE) $(TESTS_VIRTUAL),$(TESTS))
# The tests in the program of a kind, or in that of `some` with ONLY.
members     = $(if $(filter virtual,$(1)),$(TESTS_VIRTUAL),$(if $(ONLY),$(TESTS_TOGETHER),$(filter tests/$(1)/%,$(TESTS_TOGETHER))))
TEST_PROGRAMS := $(foreach kind,$(if $(ONLY),some virtual,$(TEST_KINDS)),$(if $(call members,$(kind)),$(kind)))
TEST_FILES  := $(TESTS_ALONE:%.c=$(B)/%) $(TEST_PROGRAMS:%=$(B)/tests/%_tests)

# ------------------------------------------------------------------------------------------ flags
accepts   = $(shell $(CC) -Werror $(1) -c -x c /dev/null -o /dev/null 2>/dev/null && echo $(1))
WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wformat=2 $(WERROR)
ifeq ($(SANITIZE),)
# Ubuntu's compiler predefines _FORTIFY_SOURCE, hence the -U.
HARDENING = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong $(CLASH)
CLASH     = $(call once,CLASH,$(call accepts,-fstack-clash-protection))
DEFINED  := -Wl,-z,defs
else
HARDENING := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
# With clang the program provides the sanitizer's symbols of a shared object.
DEFINED  :=
endif
OPTIMISE ?= -O2
DEBUG    ?= -g
CFLAGS   ?= $(OPTIMISE) $(DEBUG)
# Tests wait more than they compute, and compiling hundreds of them takes half as long without optimisation. (The
# simulations do compute.)
OPTIMISE_TESTS ?= $(if $(filter -O2,$(CFLAGS)),-O0 -U_FORTIFY_SOURCE)
COMPILE_FLAGS = -std=c11 -D_GNU_SOURCE $(CFLAGS) $(WARNINGS) -fvisibility=hidden $(HARDENING) $(CPPFLAGS)
INCLUDES  = -Ilib -I. -I$(B)/generated $(PACKAGE_FLAGS)
LINK_FLAGS = -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--as-needed $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)
COMPILE   = $(CC) $(COMPILE_FLAGS) -MMD -MP
LINK_PROGRAM = $(CC) -pie $(LINK_FLAGS)
LINK_SHARED  = $(CC) -shared $(LINK_FLAGS)

Q := $(if $(filter 1,$(V)),,@)
ifeq ($(V),1)
say =
else
say = @printf '%-6s %s\n' '$(1)' '$(strip $(2))';
endif

# ---------------------------------------------------------------------------------------- targets
# Targets that build and then run something build on all cores, and run alone.
PARALLEL := -j$(shell nproc)
.PHONY: all core print-extras tests soak run demo-efficiency demo-correctness test check ci bench bench-check asan tsan fuzz asan-tree tsan-tree fuzz-tree sanitized tidy layers mutants docs format install uninstall deb clean help FORCE
all: has-full $(PROGRAM) $(DRY_RUN) $(JOB_FILES) $(call archive,fence) $(PRELOAD_FILES) $(LIBREDLOCK) $(LIBHOLDFAST) ## build everything but the tests (the default)
	$(if $(LEFT_OUT),@echo 'without $(filter sqlite3 libcurl,$(MISSING)): there is no $(LEFT_OUT:%=jobs/%)')

core: has-core $(B)/core/holdfast $(LIBREDLOCK) $(LIBHOLDFAST) ## build the libraries, and a holdfast with what a fleet needs

# For scripts/size.
print-extras:
	@printf '%s\n' $(EXTRAS)

tests: has-tests all core $(BENCH_FILES) $(TEST_FILES) $(PLUGIN_FILES) $(PRELOAD_FILES) $(FAULTY) ## build the tests as well
	@$(foreach program,$(TEST_PROGRAMS),$(call name_tests,$(program));)

run: ## install what is missing, build, and run the demonstration
	@scripts/setup
	@$(MAKE) $(PARALLEL) all
	@scripts/demo $(if $(KILL),--kill-node) $(if $(PAUSE),--pause-node) $(B)

demo-efficiency: ## the same work once per key with a lock, many times without: a table and a page; QUICK=1
	@scripts/setup
	@$(MAKE) $(PARALLEL) all
	@scripts/demo-efficiency $(if $(QUICK),--quick) $(B)

demo-correctness: ## a ledger while workers freeze and die: with lock and fence, with the lock, with neither; QUICK=1
	@scripts/setup
	@$(MAKE) $(PARALLEL) all
	@scripts/demo-correctness $(if $(QUICK),--quick) $(B)

test: ## install what is missing, build, run all tests and the mutants
	@scripts/setup
	@$(MAKE) $(PARALLEL) tests
	@$(MAKE) check

ALSO = --also 'demo=scripts/demo --quick --kill-node $(B)' --also 'install=scripts/try-install $(B)' \
       --also 'pages=scripts/try-tutorial $(B)' --also 'metrics=scripts/try-metrics $(B)/holdfast' \
       --also 'demo-efficiency=scripts/demo-efficiency --quick --html "$$TMPDIR/page.html" $(B)' \
       --also 'demo-correctness=scripts/demo-correctness --quick --html "$$TMPDIR/page.html" $(B)'
check: tests ## build and run all tests, the mutants and short demonstrations; K=PATTERN runs those whose name matches
	@scripts/run-tests $(if $(K),-k '$(K)',$(ALSO)) $(B)

SOAK ?= 100000:6:15:600:1
soak: tests ## 100,000 tasks, workers killed and stopped at random; SOAK=TASKS:WORKERS:MS_A_TASK:SECONDS:SEED
	@HOLDFAST_BUILD=$(abspath $(B)) HOLDFAST_SOAK=$(SOAK) $(B)/tests/chaos/test_soak

DRAW ?= --count 150
mutants: tests ## break rules on purpose, one line at a time, then 150 lines at random: DRAW='--seed 7 --count 20'
	@tests/mutate/run --from tests/mutate/reviewed.list && tests/mutate/run --sim-only --from tests/sim/fleet/mutants.list && \
	    tests/mutate/run $(DRAW)

bench: has-tests all $(BENCH_FILES) $(PLUGIN_FILES) $(if $(BENCH),tests $(WORKLOAD:%.c=$(B)/%)) ## build and run the benchmarks; BENCH=instructions: count instead
	@tests/bench/$(or $(BENCH),run) $(B)

bench-check: tests $(WORKLOAD:%.c=$(B)/%) ## fail when anything needs 5 % more instructions than it did
	@tests/bench/instructions --check tests/bench/results/$(VERSION).json $(B)

# Continues after a failure, to show all failures in one run. Warnings of clang do not depend on optimisation. Reports
# of a sanitizer need line numbers, but not the types and variables for a debugger, which take long to write. Trees that
# are only built use the processor time that the tests of the first sanitizer leave.
ci: ## everything that CI checks beyond `make test`: clang, sanitizers, tidy
	@mkdir -p build; status=0; $(MAKE) tidy || status=1; $(MAKE) asan-tree || status=1; \
	 { nice -n 19 $(MAKE) tsan-tree >/dev/null 2>&1; \
	   nice -n 19 $(MAKE) $(PARALLEL) B=build/clang CC=clang OPTIMISE=-O0 DEBUG=-g0 HARDENING= WERROR=-Werror tests \
	     >build/clang.log 2>&1; nice -n 19 $(MAKE) fuzz-tree >/dev/null 2>&1; } & clang=$$!; \
	 $(MAKE) asan || status=1; $(MAKE) tsan || status=1; $(MAKE) bench-check || status=1; $(MAKE) fuzz || status=1; \
	 echo '== clang'; wait $$clang || { cat build/clang.log; status=1; }; exit $$status

SANITIZER = OPTIMISE=-O1 OPTIMISE_TESTS=-O0 DEBUG=-g1 WERROR=-Werror
ASAN = B=build/asan SANITIZE=address,undefined $(SANITIZER)
TSAN = B=build/tsan SANITIZE=thread $(SANITIZER) ONLY='$(TSAN_TESTS)'

asan: asan-tree ## build with AddressSanitizer and UBSan, run all tests
	@echo '== address and undefined behaviour sanitizers'
	@$(MAKE) $(ASAN) sanitized

tsan: tsan-tree ## build with ThreadSanitizer, run the tests that have threads
	@echo '== thread sanitizer'
	@$(MAKE) $(TSAN) sanitized

FUZZ ?= $(FUZZ_TARGETS)
SECONDS_EACH ?= 60
fuzz: fuzz-tree ## give readers of foreign bytes what libFuzzer makes of their corpora; FUZZ='http cron' SECONDS_EACH=600
	@scripts/fuzz build/fuzz $(SECONDS_EACH) $(FUZZ)

# Only builds. A second make waits for the first: CI begins with them while other tests run.
asan-tree:
	@mkdir -p build; flock build/asan.lock $(MAKE) $(PARALLEL) $(ASAN) tests
fuzz-tree:
	@scripts/fuzz --possible || exit 0; mkdir -p build; flock build/fuzz.lock $(MAKE) -s $(PARALLEL) B=build/fuzz CC=clang \
	    SANITIZE=address,undefined,fuzzer-no-link OPTIMISE=-O1 DEBUG=-g1 $(FUZZ:%=build/fuzz/tests/fuzz/%)
tsan-tree:
	@mkdir -p build; flock build/tsan.lock $(MAKE) $(PARALLEL) $(TSAN) tests

sanitized: tests
	@scripts/run-tests $(if $(ONLY),--only '$(ONLY)',--also 'browser=tests/browser/serve $(B)') --sanitizer --timeout 400 $(B)

tidy: ## check the house rules: layers, dependencies, circles, banned functions, format
	@status=0; $(MAKE) layers || status=1; scripts/tidy || status=1; scripts/size || status=1; exit $$status

docs: $(PROGRAM) ## print the sample configuration and the pages that come from the program's own tables
	$(PROGRAM) config --sample >conf/holdfast.conf
	$(PROGRAM) config --manual >docs/configuration.md
	$(PROGRAM) help --manual >docs/commands.md
	$(PROGRAM) help --metrics >docs/metrics.md

format: ## format all C files
	clang-format -i $$(find lib worker jobs tests -name '*.[ch]')

clean: ## remove all output
	rm -rf build $(B)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---------------------------------------------------------------------------------------- objects
# Objects are rebuilt when the compiler or its flags change, archives when a source is added or removed.
remember = mkdir -p $(@D); cmp -s $@ - <<<'$(1)' || cat >$@ <<<'$(1)'
$(B)/flags: FORCE
	@$(call remember,$(CC) $(COMPILE_FLAGS) $(INCLUDES) $(LINK_FLAGS))
$(B)/sources: FORCE
	@$(call remember,$(foreach layer,$(LAYERS),$(call layer_sources,$(layer)) $(call layer_scripts,$(layer))) $(WORKER) $(INSTEAD) $(FENCE) $(TEMPLATES) $(PAGE_TEXTS) $(foreach part,$(JOB_PARTS),$(call part_sources,$(part))) $(SUPPORT) $(SIMULATION) $(WORLD) $(SCENE))

define compile
$(call say,CC,$<)
$(Q)mkdir -p $(@D)
$(Q)$(COMPILE) $(1) $(INCLUDES) -c $< -o $@
endef

# Libraries may become part of a shared object, the rest only of programs.
$(B)/obj/lib/%.o: lib/%.c $(B)/flags | $(GENERATED)
	$(call compile,-fPIC)
$(B)/obj/generated/%.o: $(B)/generated/%.c $(B)/flags
	$(call compile,-fPIC)
# These see only headers of jobs, like the jobs that include them.
$(B)/obj/jobs/%.o: jobs/%.c $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) -fPIC -I. -c $< -o $@
define test_objects
$$(B)/obj/tests/$(1)/%.o: tests/$(1)/%.c $$(B)/flags | $$(GENERATED)
	$$(call compile,-fPIE $$(OPTIMISE_TESTS) -Dmain=main_of_$$(*F))
endef
$(foreach kind,unit virtual integration chaos,$(eval $(call test_objects,$(kind))))
$(B)/obj/%.o: %.c $(B)/flags | $(GENERATED)
	$(call compile,-fPIE)

# One run of the script makes both files; the header is a by-product of the source.
$(B)/generated/%/scripts.h: $(B)/generated/%/scripts.c
	@test -f $@
define embed
$$(B)/generated/$(1)/scripts.c: $$(call layer_scripts,$(1)) $$(call layer_includes,$(1)) scripts/embed-scripts scripts/c-literal $$(B)/sources
	$$(call say,LUA,lib/$(1)/scripts)
	$$(Q)scripts/embed-scripts $(1) $$(@D) $$(call layer_scripts,$(1))
endef
$(foreach layer,$(SCRIPTED),$(eval $(call embed,$(layer))))
define embed_texts
$$(B)/generated/worker/$(1).c: $(2) scripts/embed-texts scripts/c-literal $$(B)/sources
	$$(call say,EMBED,$$@)
	$$(Q)scripts/embed-texts $$@ $(1) $(2)
endef
$(eval $(call embed_texts,plugin_templates,$(TEMPLATES)))
$(eval $(call embed_texts,page_texts,$(PAGE_TEXTS)))
$(eval $(call embed_texts,user_rules,conf/redis-users.conf))
embedded_texts = $(patsubst %,$(B)/obj/generated/worker/%.o,plugin_templates page_texts user_rules)

# --------------------------------------------------------------------------------------- archives
define layer_archive
$$(call archive,$(1)): $$(call layer_objects,$(1)) $$(B)/sources
endef
$(foreach layer,$(LAYERS),$(eval $(call layer_archive,$(layer))))
$(call archive,worker): $(call object,$(WORKER)) $(embedded_texts) $(B)/sources
$(call archive,core): $(call object,$(CORE)) $(B)/obj/generated/worker/user_rules.o $(B)/sources
$(call archive,fence): $(call object,$(FENCE)) $(B)/sources
define part_archive
$$(call archive,$(1)): $$(call object,$$(call part_sources,$(1))) $$(B)/sources
endef
$(foreach part,$(JOB_PARTS),$(eval $(call part_archive,$(part))))
$(call archive,support): $(call object,$(SUPPORT)) $(B)/sources
$(call archive,sim): $(call object,$(SIMULATION)) $(B)/sources
$(B)/lib/lib%.a:
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && ar qcs $@ $(filter %.o,$^)

# --------------------------------------------------------------------------------------- programs
# This object changes with each commit. Only the program contains it, so that nothing else is linked again.
comma := ,
commit = $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
library_versions = $(foreach package,libuv hiredis libconfig jansson libcrypto,$(package) $(shell pkg-config --modversion $(package)))
$(B)/generated/worker/build_facts.c: FORCE
	@$(call remember,const char build_facts[] = "build      commit $(commit)$(comma) $(notdir $(firstword $(CC))) $(shell $(CC) -dumpfullversion -dumpversion)$(if $(SANITIZE),$(comma) $(SANITIZE))\nlibraries  $(strip $(library_versions))\n";)
PROGRAM_OBJECTS := $(call object,worker/main.c) $(B)/obj/generated/worker/build_facts.o
$(PROGRAM): $(PROGRAM_OBJECTS) $(LINK_ORDER)
$(DRY_RUN): $(call object,worker/dry_run/main.c) $(LINK_ORDER)
$(PROGRAM) $(DRY_RUN):
	$(call say,LINK,$@)
	$(Q)$(LINK_PROGRAM) -o $@ $^ $(PROGRAM_LIBS)
$(B)/core/holdfast: $(PROGRAM_OBJECTS) $(patsubst %libworker.a,%libcore.a,$(LINK_ORDER))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK_PROGRAM) -o $@ $^ $(CORE_LIBS)

# Objects with fault points come before the archives and so replace those without.
FAULT_SOURCES := $(shell grep -lE '^.include ".*/fault[a-z_]*\.h"' $(foreach layer,$(LAYERS),$(call layer_sources,$(layer))) $(WORKER) worker/main.c)
$(B)/faults/obj/%.o: %.c $(B)/flags | $(GENERATED)
	$(call compile,-fPIE -DHOLDFAST_FAULTS)
$(FAULTY): $(FAULT_SOURCES:%.c=$(B)/faults/obj/%.o) $(B)/obj/generated/worker/build_facts.o $(LINK_ORDER)
	$(call say,LINK,$@)
	$(Q)$(LINK_PROGRAM) -o $@ $^ $(PROGRAM_LIBS)

# Jobs see only their own headers and libc. chmod, because the worker refuses files that the group may write, as some
# umasks allow.
define plugin
$(call say,CC,$<)
$(Q)mkdir -p $(@D)
$(Q)$(COMPILE) -fPIC -I. $(LINK_FLAGS) $(DEFINED) -shared -o $@ $< $($(*F)_LIBS)
$(Q)chmod go-w $(@D) $@
endef
$(B)/jobs/transfer.so $(B)/jobs/sql.so: $(call archive,fence)
$(addprefix $(B)/jobs/,transfer.so render.so sleep.so webhook.so sql.so exec.so): $(call archive,arguments)
$(B)/jobs/webhook.so: $(call archive,webhook)
$(B)/jobs/%.so: jobs/%.c $(B)/flags
	$(plugin)
$(B)/tests/plugins/%.so: tests/plugins/%.c $(B)/flags
	$(plugin)

# Loaded into programs without a sanitizer, so it never has one.
$(B)/preload/%.so: worker/dry_run/preload/%.c $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 -g $(WARNINGS) -fvisibility=hidden -fPIC -shared -o $@ $<

define link_test
$(call say,LINK,$@)
$(Q)mkdir -p $(@D)
$(Q)$(LINK_PROGRAM) $(1) -o $@ $(filter %.o,$^) $(filter %.a,$^) $($(@F)_LIBS) $(cmocka_LIBS) $(PROGRAM_LIBS)
endef
TEST_LINK := $(call archive,support) $(call archive,sim) $(call archive,fence) $(foreach part,$(JOB_PARTS),$(call archive,$(part))) $(LINK_ORDER)
# The simulated world replaces the functions in tests/sim/world/wraps, and the product's functions that it defines.
WORLD_LINK  := $(call archive,support) $(LINK_ORDER)
$(WORLD_TESTS:%.c=$(B)/%) $(WORKLOAD:%.c=$(B)/%): $(B)/tests/%: $(B)/obj/tests/%.o $(call object,$(WORLD)) $(WORLD_LINK) tests/sim/world/wraps
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK_PROGRAM) -o $@ $(filter %.o %.a,$^) -Wl,@tests/sim/world/wraps $(cmocka_LIBS) $(lua_LIBS) $(PROGRAM_LIBS)
# In the world the test is the process, and its servers are simulated.
REAL ?= $(filter thread,$(SANITIZE))
ifeq ($(REAL),)
SCENE_LINK  := $(call object,$(filter tests/sim/world/% tests/sim/server/%,$(WORLD)) $(SCENE)) $(WORLD_LINK) tests/sim/world/wraps tests/sim/scene/wraps
virtual_tests_LIBS = -Wl,@tests/sim/world/wraps -Wl,@tests/sim/scene/wraps $(lua_LIBS)
else
SCENE_LINK  := $(TEST_LINK)
endif
define test_alone
$(B)/$(1:.c=): $(call object,$(1)) $$(TEST_LINK)
	$$(call link_test,$(if $(filter tests/sim/%,$(1)),,-Wl$$(comma)--defsym=main=main_of_$$(@F)))
endef
$(foreach test,$(filter-out $(WORLD_TESTS),$(TESTS_ALONE)),$(eval $(call test_alone,$(test))))

# Global functions of one test would replace those of others, and of libc.
define test_program
$(B)/generated/tests/$(1).groups: FORCE
	@$$(call remember,$(foreach test,$(call members,$(1)),GROUP($(basename $(notdir $(test))))))
$(B)/obj/tests/$(1)_main.o: tests/main.c $(B)/generated/tests/$(1).groups $(B)/flags
	$$(call compile,-fPIE -DTEST_GROUPS='"tests/$(1).groups"')
$(B)/tests/$(1)_tests: $(B)/obj/tests/$(1)_main.o $(call object,$(call members,$(1))) $(if $(filter virtual,$(1)),$$(SCENE_LINK),$$(TEST_LINK))
	@! nm -A --defined-only --extern-only $(call object,$(call members,$(1))) | \
	    awk '$$$$(NF - 1) ~ /[TDBRC]/ && $$$$NF !~ /^main_of_/ { print $$$$1, $$$$NF, "(see ALONE)"; found = 1 } END { exit !found }'
	$$(link_test)
endef
$(foreach program,$(TEST_PROGRAMS),$(eval $(call test_program,$(program))))
name_tests = for test in $(patsubst tests/%.c,%,$(call members,$(1))); do \
	if [[ ! $(B)/tests/$$test -ef $(B)/tests/$(1)_tests ]]; then \
	mkdir -p $(B)/tests/$${test%/*} && ln -sf ../$(1)_tests $(B)/tests/$$test || exit 1; fi; done
# Every fuzz target has a function of the same name for libFuzzer, so each gets the name of its file.
$(B)/obj/tests/fuzz/fuzz_%.o: tests/fuzz/fuzz_%.c $(B)/flags | $(GENERATED)
	$(call compile,-fPIE -DLLVMFuzzerTestOneInput=fuzz_$*)
$(B)/generated/tests/fuzz.targets: FORCE
	@$(call remember,$(foreach target,$(FUZZ_TARGETS),TARGET($(target))))
$(B)/obj/tests/unit/test_fuzz_corpus.o: $(B)/generated/tests/fuzz.targets
$(B)/tests/unit/test_fuzz_corpus: $(FUZZ_OBJECTS)
$(B)/tests/unit/test_deflate_stored: $(B)/obj/worker/task/deflate_stored.o
$(FUZZ_TARGETS:%=$(B)/tests/fuzz/%): $(B)/tests/fuzz/%: $(B)/obj/tests/fuzz/fuzz_%.o $(LINK_ORDER)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK_PROGRAM) -fsanitize=fuzzer -Wl,--defsym=LLVMFuzzerTestOneInput=fuzz_$* -o $@ $^ $(PROGRAM_LIBS)

define bench_rule
$$(B)/bench/$$(subst _,-,$(basename $(notdir $(1)))): $$(call object,$(1)) $$(TEST_LINK)
	$$(link_test)
endef
$(foreach bench,$(BENCHES),$(eval $(call bench_rule,$(bench))))

# --------------------------------------------------------------------------------------- the libraries
# For other programs: some layers in one object that exports what the public headers declare, with a version.
redlock_HEADERS  := $(addprefix lib/redlock/,redlock.h redlock_mutex.h redlock_nodes.h)
holdfast_HEADERS := lib/queue/holdfast.h
REDLOCK_PARTS  := $(foreach layer,redlock redis base,$(call archive,$(layer)))
HOLDFAST_PARTS := $(foreach layer,queue redis base,$(call archive,$(layer)))
define library
$(B)/generated/$(1).names: $$($(1)_HEADERS) scripts/exports
	$$(Q)mkdir -p $$(@D) && scripts/exports --declared $$($(1)_HEADERS) >$$@
$(B)/generated/$(1).map: $(B)/generated/$(1).names
	$$(Q){ echo '$(3)_$$(SOVERSION) {'; sed '1s/^/global: /; s/$$$$/;/' $$<; echo 'local: *; };'; } >$$@
$(B)/lib$(1).so: $(2) $(B)/generated/$(1).map
	$$(call say,LINK,$$@)
	$$(Q)$$(LINK_SHARED) $$(DEFINED) -Wl,-soname,lib$(1).so.$$(SOVERSION) -o $$@ \
	    -Wl,--version-script,$(B)/generated/$(1).map -Wl,--whole-archive $(2) -Wl,--no-whole-archive $$(LAYER_LIBS)
	$$(Q)ln -sf lib$(1).so $$@.$$(SOVERSION)
$(B)/lib$(1).a: $(2) $(B)/generated/$(1).names
	$$(call say,AR,$$@)
	$$(Q)$$(CC) -r -nostdlib -o $$(B)/lib/$(1)-all.o -Wl,--whole-archive $(2)
	$$(Q)objcopy --keep-global-symbols=$(B)/generated/$(1).names $$(B)/lib/$(1)-all.o
	$$(Q)rm -f $$@ && ar qcs $$@ $$(B)/lib/$(1)-all.o
endef
$(eval $(call library,redlock,$(REDLOCK_PARTS),REDLOCK))
$(eval $(call library,holdfast,$(HOLDFAST_PARTS),HOLDFAST))

# --------------------------------------------------------------------------------------- the layers
# Links every layer as a shared object with only what it may use: an upward call, or a call into another layer's
# library, is an undefined symbol. (Static archives could accept it, depending on the link order.)
LAYER_CHECKS := $(foreach layer,$(LAYERS),$(B)/layers/$(layer).so)
# The lock library passes its tests without the queue, at real servers. (The tests ask the worker which program those are.)
REDLOCK_TESTS := integration/test_mutex_process virtual/test_blocking virtual/test_redlock_input
layers: $(LAYER_CHECKS) $(REDLOCK_TESTS:%=$(B)/layers/%) $(LIBREDLOCK) $(LIBHOLDFAST) $(JOB_FILES) $(call archive,fence) ## prove that no layer calls one above it
	@scripts/exports --exactly '$(redlock_HEADERS)' $(LIBREDLOCK)
	@scripts/exports --exactly '$(holdfast_HEADERS)' $(LIBHOLDFAST)
	@for test in $(REDLOCK_TESTS); do echo "TEST   libredlock alone: $$test"; \
	    $(B)/layers/$$test >$(B)/layers/log 2>&1 || { cat $(B)/layers/log; exit 1; }; done
	@scripts/exports '^holdfast_plugin$$' $(JOB_FILES)
	@scripts/exports '^hf_fence_' $(call archive,fence)
$(REDLOCK_TESTS:%=$(B)/layers/%): $(B)/layers/%: $(B)/obj/tests/%.o $(call archive,support) $(call archive,worker) $(REDLOCK_PARTS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK_PROGRAM) -o $@ $^ -Wl,--defsym=main=main_of_$(@F) $(cmocka_LIBS) $(LAYER_LIBS)
base_LOWER    :=
redis_LOWER   := base
redlock_LOWER := redis base
queue_LOWER   := redis base
define layer_check
$$(B)/layers/$(1).so: $$(call archive,$(1)) $$(foreach lower,$$($(1)_LOWER),$$(call archive,$$(lower)))
	$$(call say,LAYER,$(1) on $$(if $$($(1)_LOWER),$$($(1)_LOWER),nothing of ours))
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(LINK_SHARED) $$(DEFINED) -o $$@ -Wl,--whole-archive $$< -Wl,--no-whole-archive \
	    $$(filter-out $$<,$$^) $$(foreach layer,$(1) $$($(1)_LOWER),$$($$(layer)_LIBS))
endef
$(foreach layer,$(LAYERS),$(eval $(call layer_check,$(layer))))

# ---------------------------------------------------------------------------------------- install
INSTALL_DIR = $(DESTDIR)$(PREFIX)
# Everybody may read what is installed, whatever the umask says, or said when the sources were cloned.
install_tree = tar -c --mode=u=rwX,go=rX -C $(1) . | tar -x -p --no-same-owner -C $(INSTALL_DIR)/share/holdfast/$(2)
install: all ## install below PREFIX (/usr/local); DESTDIR is put before it
	install -d $(INSTALL_DIR)/bin $(INSTALL_DIR)/libexec $(INSTALL_DIR)/lib/pkgconfig $(INSTALL_DIR)/lib/holdfast/jobs \
	    $(INSTALL_DIR)/lib/holdfast/handlers $(INSTALL_DIR)/lib/holdfast/examples $(INSTALL_DIR)/share/holdfast/examples \
	    $(INSTALL_DIR)/lib/holdfast/programs $(INSTALL_DIR)/lib/holdfast/preload $(INSTALL_DIR)/include/holdfast $(INSTALL_DIR)/share/holdfast/fence \
	    $(INSTALL_DIR)/share/holdfast/conf $(INSTALL_DIR)/share/holdfast/template
	install -m 755 $(PROGRAM) $(INSTALL_DIR)/bin/
	install -m 755 $(DRY_RUN) $(INSTALL_DIR)/libexec/
	umask 022; for name in redlock holdfast; do \
	    install -m 644 $(B)/lib$$name.a $(INSTALL_DIR)/lib/ && \
	    install -m 755 $(B)/lib$$name.so $(INSTALL_DIR)/lib/lib$$name.so.$(VERSION) && \
	    ln -sf lib$$name.so.$(VERSION) $(INSTALL_DIR)/lib/lib$$name.so.$(SOVERSION) && \
	    ln -sf lib$$name.so.$(SOVERSION) $(INSTALL_DIR)/lib/lib$$name.so && \
	    scripts/library-pc $$name '$(PREFIX)' '$(VERSION)' >$(INSTALL_DIR)/lib/pkgconfig/$$name.pc || exit 1; done
	install -m 644 lib/redlock/redlock.h $(INSTALL_DIR)/include/
	umask 022; for name in mutex nodes; do sed 's|"redlock/redlock.h"|"redlock.h"|' lib/redlock/redlock_$$name.h \
	    >$(INSTALL_DIR)/include/redlock_$$name.h || exit 1; done
	install -m 644 jobs/job.h jobs/fence/fence.h lib/queue/holdfast.h $(INSTALL_DIR)/include/holdfast/
	install -m 644 $(call archive,fence) $(INSTALL_DIR)/lib/libholdfast-fence.a
	umask 022; scripts/library-pc holdfast-fence '$(PREFIX)' '$(VERSION)' >$(INSTALL_DIR)/lib/pkgconfig/holdfast-fence.pc
	umask 022; scripts/library-pc holdfast-job '$(PREFIX)' '$(VERSION)' >$(INSTALL_DIR)/lib/pkgconfig/holdfast-job.pc
	install -m 644 jobs/fence/*.lua $(INSTALL_DIR)/share/holdfast/fence/
	$(call install_tree,jobs/template,template)
	install -d $(INSTALL_DIR)/share/doc/holdfast
	install -m 644 LICENSE CHANGELOG.md README.md docs/licences.md $(INSTALL_DIR)/share/doc/holdfast/
	scripts/install-manual $(PROGRAM) '$(VERSION)' '$(INSTALL_DIR)'
	$(if $(JOB_FILES),install -m 755 $(filter-out $(EXAMPLE_FILES),$(JOB_FILES)) $(INSTALL_DIR)/lib/holdfast/handlers/)
	$(if $(EXAMPLE_FILES),install -m 755 $(EXAMPLE_FILES) $(INSTALL_DIR)/lib/holdfast/examples/)
	install -m 644 $(EXAMPLES:%=jobs/%.c) jobs/kit.h $(INSTALL_DIR)/share/holdfast/examples/
	$(if $(PRELOAD_FILES),install -m 755 $(PRELOAD_FILES) $(INSTALL_DIR)/lib/holdfast/preload/)
	$(call install_tree,conf,conf)
	install -d $(INSTALL_DIR)/lib/systemd/system
	umask 022; for directory in lib/systemd/system share/holdfast/conf; do \
	    sed 's|/usr/local/bin/|$(PREFIX)/bin/|' conf/holdfast.service >$(INSTALL_DIR)/$$directory/holdfast.service || exit 1; done
	sed -i 's|/usr/local/|$(PREFIX)/|g' $(INSTALL_DIR)/share/holdfast/conf/holdfast.service.d/*.conf
	$(if $(DESTDIR),,@scripts/announce-libraries '$(PREFIX)/lib')

# Installs into an empty directory, removes the same files from PREFIX, and then our directories that are empty.
uninstall: all ## remove what `install` puts below PREFIX; your own plugins and programs stay
	@stage=$$(mktemp -d) && trap 'rm -rf "$$stage"' EXIT && $(MAKE) -s install DESTDIR="$$stage" && \
	 there=$$(cd "$(INSTALL_DIR)" && pwd) && cd "$$stage$(PREFIX)" && find . ! -type d -exec rm -f "$$there/{}" \; && \
	 find . -depth -type d -path '*/holdfast*' -exec rmdir --ignore-fail-on-non-empty "$$there/{}" \;

deb: ## build Debian packages of the tree into build/deb; needs build-essential and debhelper
	@scripts/deb '$(VERSION)' '$(B)/deb'

# Excludes other trees below this one, where another make may be writing.
-include $(shell find $(addprefix $(B)/,obj faults jobs tests) -name '*.d' 2>/dev/null)
