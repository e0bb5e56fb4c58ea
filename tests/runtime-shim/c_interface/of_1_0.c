/* A program that was written for moepack_runtime.h of 1.0 compiles, links and finds every number and
 * field where it was. This file is the promise of CHANGELOG.md: while MOEPACK_ABI_VERSION is 1, it may
 * get longer, but no line of it changes. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "moepack_runtime.h"

struct node_options_1_0 {
  size_t struct_size;
  int32_t group;
  const char* executor;
  uint32_t device;
  uint32_t threads;
  int32_t no_overlay;
  int32_t no_verify;
  const char* overlay_version;
};

struct placement_1_0 {
  size_t struct_size;
  uint32_t group;
  uint32_t second;
  int32_t sure;
  uint32_t tokens;
  double margin;
  double known_share;
};

struct session_options_1_0 {
  size_t struct_size;
  uint32_t context;
  float temperature;
  uint32_t top_k;
  float top_p;
  float min_p;
  uint64_t seed;
};

static int failures = 0;

static void expect(int fine, const char* what) {
  if (fine) return;
  printf("moepack_runtime.h: %s: expected what it was in 1.0\n", what);
  ++failures;
}

#define EXPECT_NUMBER(name, number) expect(name == number, #name)
#define EXPECT_FIELD(type, old, field)                                   \
  expect(offsetof(type, field) == offsetof(struct old, field) &&         \
             sizeof(((type*)0)->field) == sizeof(((struct old*)0)->field), \
         #type "." #field)

static void expect_numbers(void) {
  EXPECT_NUMBER(MOEPACK_ABI_VERSION, 1);
  EXPECT_NUMBER(MOEPACK_OK, 0);
  EXPECT_NUMBER(MOEPACK_INTERNAL, 1);
  EXPECT_NUMBER(MOEPACK_INVALID_ARGUMENT, 2);
  EXPECT_NUMBER(MOEPACK_CORRUPT, 3);
  EXPECT_NUMBER(MOEPACK_UNSUPPORTED, 4);
  EXPECT_NUMBER(MOEPACK_NOT_FOUND, 5);
  EXPECT_NUMBER(MOEPACK_MISMATCH, 6);
  EXPECT_NUMBER(MOEPACK_UNAVAILABLE, 7);
  EXPECT_NUMBER(MOEPACK_INTERRUPTED, 130);
}

static void expect_fields(void) {
  EXPECT_FIELD(moepack_node_options, node_options_1_0, struct_size);
  EXPECT_FIELD(moepack_node_options, node_options_1_0, group);
  EXPECT_FIELD(moepack_node_options, node_options_1_0, executor);
  EXPECT_FIELD(moepack_node_options, node_options_1_0, device);
  EXPECT_FIELD(moepack_node_options, node_options_1_0, threads);
  EXPECT_FIELD(moepack_node_options, node_options_1_0, no_overlay);
  EXPECT_FIELD(moepack_node_options, node_options_1_0, no_verify);
  EXPECT_FIELD(moepack_node_options, node_options_1_0, overlay_version);
  EXPECT_FIELD(moepack_placement, placement_1_0, struct_size);
  EXPECT_FIELD(moepack_placement, placement_1_0, group);
  EXPECT_FIELD(moepack_placement, placement_1_0, second);
  EXPECT_FIELD(moepack_placement, placement_1_0, sure);
  EXPECT_FIELD(moepack_placement, placement_1_0, tokens);
  EXPECT_FIELD(moepack_placement, placement_1_0, margin);
  EXPECT_FIELD(moepack_placement, placement_1_0, known_share);
  EXPECT_FIELD(moepack_session_options, session_options_1_0, struct_size);
  EXPECT_FIELD(moepack_session_options, session_options_1_0, context);
  EXPECT_FIELD(moepack_session_options, session_options_1_0, temperature);
  EXPECT_FIELD(moepack_session_options, session_options_1_0, top_k);
  EXPECT_FIELD(moepack_session_options, session_options_1_0, top_p);
  EXPECT_FIELD(moepack_session_options, session_options_1_0, min_p);
  EXPECT_FIELD(moepack_session_options, session_options_1_0, seed);
}

/* The compiler refuses a function of another type, the linker one that is gone. */
static struct {
  uint32_t (*abi_version)(void);
  const char* (*last_error)(void);
  void (*node_options_init)(moepack_node_options*, size_t);
  int (*node_open)(const char*, const moepack_node_options*, moepack_node**);
  void (*node_close)(moepack_node*);
  uint32_t (*node_vocabulary)(const moepack_node*);
  uint32_t (*node_groups)(const moepack_node*);
  int (*tokenize)(const moepack_node*, const char*, size_t, uint32_t*, size_t, size_t*);
  int (*detokenize)(const moepack_node*, const uint32_t*, size_t, char*, size_t, size_t*);
  int (*is_end)(const moepack_node*, uint32_t);
  int (*probe_score)(const moepack_node*, const uint32_t*, size_t, uint32_t, double*, size_t,
                     size_t*);
  int (*placer_open)(const char*, moepack_placer**);
  void (*placer_close)(moepack_placer*);
  uint32_t (*placer_groups)(const moepack_placer*);
  int (*place_tokens)(const moepack_placer*, const uint32_t*, size_t, moepack_placement*, double*,
                      size_t, size_t*);
  int (*place_text)(const moepack_placer*, const char*, size_t, moepack_placement*, double*, size_t,
                    size_t*);
  void (*session_options_init)(moepack_session_options*, size_t);
  int (*session_open)(moepack_node*, const moepack_session_options*, moepack_session**);
  void (*session_close)(moepack_session*);
  int (*prefill)(moepack_session*, const uint32_t*, size_t);
  int (*decode)(moepack_session*, uint32_t*, double*);
} functions = {
    moepack_abi_version,
    moepack_last_error,
    moepack_node_options_init,
    moepack_node_open,
    moepack_node_close,
    moepack_node_vocabulary,
    moepack_node_groups,
    moepack_tokenize,
    moepack_detokenize,
    moepack_is_end,
    moepack_probe_score,
    moepack_placer_open,
    moepack_placer_close,
    moepack_placer_groups,
    moepack_place_tokens,
    moepack_place_text,
    moepack_session_options_init,
    moepack_session_open,
    moepack_session_close,
    moepack_prefill,
    moepack_decode,
};

/* What the library sets in options that are as long as those of 1.0, and nothing behind them. */
static void expect_defaults(void) {
  struct {
    struct node_options_1_0 options;
    char behind[8];
  } node;
  struct {
    struct session_options_1_0 options;
    char behind[8];
  } session;
  memset(&node, 'x', sizeof node);
  memset(&session, 'x', sizeof session);
  functions.node_options_init((moepack_node_options*)&node.options, sizeof node.options);
  functions.session_options_init((moepack_session_options*)&session.options,
                                 sizeof session.options);
  expect(node.options.group == -1 && strcmp(node.options.executor, "cpu") == 0 &&
             node.options.device == 0 && node.options.threads == 0 &&
             node.options.no_overlay == 0 && node.options.no_verify == 0 &&
             node.options.overlay_version == NULL,
         "the defaults of moepack_node_options");
  expect(session.options.context == 0 && session.options.temperature == 0 &&
             session.options.top_k == 0 && session.options.top_p == 1 &&
             session.options.min_p == 0 && session.options.seed == 0,
         "the defaults of moepack_session_options");
  expect(memcmp(node.behind, "xxxxxxxx", 8) == 0 && memcmp(session.behind, "xxxxxxxx", 8) == 0,
         "the length of options");
}

int main(void) {
  expect_numbers();
  expect_fields();
  expect_defaults();
  expect(functions.abi_version() == 1, "moepack_abi_version()");
  return failures != 0;
}
