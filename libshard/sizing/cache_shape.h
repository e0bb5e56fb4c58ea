// What a runtime stores about a session's past: keys and values per token, or a state of fixed
// size. The shapes are those of llama.cpp, which are the same for both containers:
//   attention        key heads x head size numbers for keys, and for values, per token
//                    (llama-hparams.cpp: n_embd_k_gqa, n_embd_v_gqa)
//   latent attention (MLA) in its absorbed form, which every converted file has: the latent and the
//                    part with rope, per token, for keys; no values (llama-kv-cache.cpp: a cache of
//                    MLA has no V); with an indexer also its keys
//   windows          a layer whose attention looks back over `window` tokens keeps those and one
//                    batch (llama-kv-cache-iswa.cpp)
//   compressed       DeepSeek-V4: the keys of a window, which are values, too; for each block of
//                    tokens a key, and with an indexer its key; and in F32, per session, what the
//                    tokens of the last blocks give to keys (llama-kv-cache-dsv4.cpp)
//   recurrent        convolution and state of Mamba, Gated DeltaNet and short convolutions, in F32,
//                    per session (n_embd_r, n_embd_s)
// Blocks for multi-token prediction keep nothing: stock runtimes do not run them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/model.h"
#include "quant/format.h"

namespace moepack {

struct CacheLayer {
  uint32_t layer = 0;
  uint64_t key = 0, value = 0;  // numbers stored per token
  uint64_t window = 0;          // tokens that attention looks back over; 0: the whole session
  uint64_t state = 0;           // F32 numbers stored per session, however long it is
  uint64_t compressed = 0;      // numbers stored for each `ratio` tokens of the whole session
  uint64_t ratio = 0;
  bool operator==(const CacheLayer&) const = default;
};
using CacheShape = std::vector<CacheLayer>;  // of every decoder layer, ascending

// Reads the shape from config.json, or from the metadata of a GGUF model. kUnsupported, naming the
// layer and what is unknown about it, for kinds of attention whose cache is not known here;
// kCorrupt for fields of a wrong type.
Result<CacheShape> ReadCacheShape(const MoeModel& model);
Result<CacheShape> ConfigCacheShape(const HfConfig& config, const ModelConfig& model,
                                    const Family& family);
Result<CacheShape> GgufCacheShape(const std::string& where, const GgufMetadata& metadata);

struct CacheUse {
  uint64_t context = 0;                 // tokens of one session
  uint64_t sessions = 1;                // at a time
  const quant::Format* type = nullptr;  // of keys and values (CacheType)
};
// How many tokens a runtime processes at a time: llama.cpp's --ubatch-size.
inline constexpr uint64_t kBatchTokens = 512;

// Finds one of the types in which llama.cpp stores keys and values; kInvalidArgument lists them.
Result<const quant::Format*> CacheType(std::string_view name);

// The bytes of all sessions together, by layer. llama.cpp rounds the tokens of a session, and of a
// window, up to a multiple of 256. kInvalidArgument if the numbers of a layer are not whole blocks
// of the type, or the product is more than any machine has.
Result<std::map<uint32_t, uint64_t>> CacheBytesByLayer(const CacheShape& shape,
                                                       const CacheUse& use);
Result<uint64_t> CacheBytes(const CacheShape& shape, const CacheUse& use);

// Estimates the buffers that a runtime computes in, in addition to weights and cache.

// A batch of kBatchTokens tokens in F32: logits over the vocabulary, eight vectors of hidden size
// (residual stream, norm, queries, keys, values, the attention's output and copies between
// devices), and for each of the top-k experts its output and three vectors of its width; and the
// attention's mask, one number per token of the batch and of `context`. llama.cpp reserves logits
// for every token of a batch, which is most of it. Sizes that are not in the config count as 0;
// --reserve overrides the estimate.
uint64_t ComputeBytes(const MoeModel& model, uint64_t context);

}  // namespace moepack
