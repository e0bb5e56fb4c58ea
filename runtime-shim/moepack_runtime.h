/* The runtime shim for programs that are not C++: load what a node holds, score a prompt for all
 * groups, run it, decode. C99; docs/runtime-shim.md explains it, docs/examples/node.c uses it.
 *
 * Rules
 *   Status     Functions that can fail return a status, 0 when all went well; outputs are written
 *              only then. moepack_last_error() has the reason. No C++ exception leaves the library.
 *   Ownership  What *_open gives belongs to the caller until *_close, which takes NULL. Texts and
 *              arrays that are handed in are only read during the call. A session keeps its node
 *              alive, so both may be closed in any order.
 *   Threads    A node and its sessions may be used by one thread at a time; different nodes by
 *              different threads at once. The last error is the thread's own.
 *   Arrays     Where a function fills an array, `capacity` is its size in elements and *count gets
 *              the number that there are; when that is more, only `capacity` were written.
 *   Layout     Options begin with the size that the caller's header gave them (*_init takes it and
 *              sets the defaults): later versions append fields, and a program goes on working with
 *              a newer library. */
/* NOLINTBEGIN(readability-identifier-naming): names of C */
#ifndef MOEPACK_RUNTIME_H_
#define MOEPACK_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or field changes its meaning. */
#define MOEPACK_ABI_VERSION 1
uint32_t moepack_abi_version(void);

/* The numbers are the exit statuses of the commands (docs/cli.md). */
enum moepack_status {
  MOEPACK_OK = 0,
  MOEPACK_INTERNAL = 1,         /* out of memory too */
  MOEPACK_INVALID_ARGUMENT = 2, /* a value out of range, a full context */
  MOEPACK_CORRUPT = 3,          /* a file contradicts itself or another; NaN among the logits */
  MOEPACK_UNSUPPORTED = 4,      /* a family, type or executor that this library does not run */
  MOEPACK_NOT_FOUND = 5,        /* a file, or those of a group, absent; reading failed */
  MOEPACK_MISMATCH = 6,         /* a digest differs from the manifest */
  MOEPACK_UNAVAILABLE = 7,      /* no such device, lost, or too little memory on it */
  MOEPACK_INTERRUPTED = 130
};

/* Why the last call of this thread that failed did; "" before any. Valid until the next failure. */
const char* moepack_last_error(void);

typedef struct moepack_node moepack_node;
typedef struct moepack_session moepack_session;

typedef struct moepack_node_options {
  size_t struct_size;
  int32_t group;               /* of a distribution; -1 (default): load all, mask nothing */
  const char* executor;        /* default "cpu" */
  uint32_t device;             /* of those that the executor counts; default 0 */
  uint32_t threads;            /* of the CPU; 0 (default): one per core */
  int32_t no_overlay;          /* not 0: leave the overlay out */
  int32_t no_verify;           /* not 0: trust the files, check no digests */
  const char* overlay_version; /* NULL (default): the newest, or the one pulled */
} moepack_node_options;
void moepack_node_options_init(moepack_node_options* options, size_t struct_size);

/* `source`: a distribution, an assembled node, a GGUF file or a Hugging Face directory. `options`
 * may be NULL. */
int moepack_node_open(const char* source, const moepack_node_options* options, moepack_node** node);
void moepack_node_close(moepack_node* node);
/* Tokens that the model knows; groups of the distribution, 0 for another source. */
uint32_t moepack_node_vocabulary(const moepack_node* node);
uint32_t moepack_node_groups(const moepack_node* node);

/* UTF-8, not ended by a zero. Tokenize puts the model's begin token in front if it has one. */
int moepack_tokenize(const moepack_node* node, const char* text, size_t bytes, uint32_t* tokens,
                     size_t capacity, size_t* count);
/* The bytes of the tokens; those of one token may be part of a character. */
int moepack_detokenize(const moepack_node* node, const uint32_t* tokens, size_t token_count,
                       char* text, size_t capacity, size_t* count);
/* Not 0: a generation ends here. */
int moepack_is_end(const moepack_node* node, uint32_t token);

/* How well each group would serve this prompt: 0 (not at all) to 1 (as the whole model). One pass
 * over the prompt (2 tokens at least), counting its first `moe_layers` MoE layers; 0: all. */
int moepack_probe_score(const moepack_node* node, const uint32_t* tokens, size_t token_count,
                        uint32_t moe_layers, double* scores, size_t capacity, size_t* count);

/* Which group a session should go to, by the placement table of a distribution: no weights are
 * loaded and nothing is run. A placer may be used by several threads at once. */
typedef struct moepack_placer moepack_placer;
/* MOEPACK_INVALID_ARGUMENT for a source that is no distribution or has no table. */
int moepack_placer_open(const char* distribution, moepack_placer** placer);
void moepack_placer_close(moepack_placer* placer);
uint32_t moepack_placer_groups(const moepack_placer* placer);

typedef struct moepack_placement {
  size_t struct_size; /* set by the caller: sizeof of its struct */
  uint32_t group;     /* the best */
  uint32_t second;    /* the same where there is no other */
  int32_t sure;       /* 0: the lead is too small, or few tokens are known; ask moepack_probe_score,
                         or let groups race */
  uint32_t tokens;    /* that were looked at */
  double margin;      /* the lead over the second, in nats */
  double known_share; /* of the tokens, those that the table knows */
} moepack_placement;

/* `scores` (may be NULL with a capacity of 0) gets one per group, in nats relative to each other;
 * minus infinity for groups that the table never chooses. Only the first tokens count. Placing a
 * text needs the tokenizer, which is in the head, or in the assets beside safetensors bundles. */
int moepack_place_tokens(const moepack_placer* placer, const uint32_t* tokens, size_t token_count,
                         moepack_placement* placement, double* scores, size_t capacity,
                         size_t* count);
int moepack_place_text(const moepack_placer* placer, const char* text, size_t bytes,
                       moepack_placement* placement, double* scores, size_t capacity,
                       size_t* count);

typedef struct moepack_session_options {
  size_t struct_size;
  uint32_t context;  /* positions; 0 (default): 4096, or the model's own if that is less */
  float temperature; /* 0 (default): greedy */
  uint32_t top_k;    /* 0 (default): all */
  float top_p;       /* default 1 */
  float min_p;       /* default 0 */
  uint64_t seed;     /* default 0 */
} moepack_session_options;
void moepack_session_options_init(moepack_session_options* options, size_t struct_size);

/* `options` may be NULL. */
int moepack_session_open(moepack_node* node, const moepack_session_options* options,
                         moepack_session** session);
void moepack_session_close(moepack_session* session);

/* Runs tokens after those that the session holds. */
int moepack_prefill(moepack_session* session, const uint32_t* tokens, size_t token_count);
/* Picks the next token. `logprob` (may be NULL): its natural log-probability, in the model's own
 * distribution whatever the sampling. */
int moepack_decode(moepack_session* session, uint32_t* token, double* logprob);

#ifdef __cplusplus
}
#endif

#endif /* MOEPACK_RUNTIME_H_ */
/* NOLINTEND(readability-identifier-naming) */
