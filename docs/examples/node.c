/* One node of a distribution: scores a prompt for every group, then runs it on the group that was
 * opened. usage: node DISTRIBUTION GROUP TEXT (of at most kMaxTokens tokens) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moepack_runtime.h"

enum { kMaxTokens = 4096, kMaxGroups = 64, kNewTokens = 16 };

static int Failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, moepack_last_error());
  return 1;
}

static int PrintScores(const moepack_node* node, const uint32_t* tokens, size_t count) {
  double scores[kMaxGroups];
  size_t groups = 0, group;
  if (moepack_probe_score(node, tokens, count, 0, scores, kMaxGroups, &groups) != MOEPACK_OK)
    return Failed("probe");
  for (group = 0; group < groups && group < kMaxGroups; ++group)
    printf("group %lu: %.3f\n", (unsigned long)group, scores[group]);
  return 0;
}

static int Generate(moepack_node* node, moepack_session* session) {
  int i;
  for (i = 0; i < kNewTokens; ++i) {
    uint32_t token = 0;
    double logprob = 0;
    char text[256];
    size_t bytes = 0;
    if (moepack_decode(session, &token, &logprob) != MOEPACK_OK) return Failed("decode");
    if (moepack_is_end(node, token)) break;
    if (moepack_detokenize(node, &token, 1, text, sizeof text, &bytes) != MOEPACK_OK)
      return Failed("detokenize");
    if (bytes > sizeof text) bytes = sizeof text;
    fwrite(text, 1, bytes, stdout);
  }
  printf("\n");
  return 0;
}

static int Run(moepack_node* node, const char* prompt) {
  static uint32_t tokens[kMaxTokens];
  moepack_session* session = NULL;
  size_t count = 0;
  int failed;
  if (moepack_tokenize(node, prompt, strlen(prompt), tokens, kMaxTokens, &count) != MOEPACK_OK)
    return Failed("tokenize");
  if (count > kMaxTokens) {
    fprintf(stderr, "prompt: expected at most %d tokens, found %lu\n", kMaxTokens,
            (unsigned long)count);
    return 1;
  }
  if (PrintScores(node, tokens, count)) return 1;
  if (moepack_session_open(node, NULL, &session) != MOEPACK_OK) return Failed("session");
  failed = moepack_prefill(session, tokens, count) != MOEPACK_OK ? Failed("prefill")
                                                                 : Generate(node, session);
  moepack_session_close(session);
  return failed;
}

int main(int argc, char** argv) {
  moepack_node_options options;
  moepack_node* node = NULL;
  int failed;
  if (argc != 4) {
    fprintf(stderr, "usage: %s DISTRIBUTION GROUP TEXT\n", argv[0]);
    return 2;
  }
  moepack_node_options_init(&options, sizeof options);
  options.group = (int32_t)atoi(argv[2]);
  if (moepack_node_open(argv[1], &options, &node) != MOEPACK_OK) return Failed("open");
  failed = Run(node, argv[3]);
  moepack_node_close(node);
  return failed;
}
