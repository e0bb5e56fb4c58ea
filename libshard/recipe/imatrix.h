// Importance matrices: what llama-imatrix gathers about the inputs of every weight matrix, in its
// GGUF and its legacy .dat form.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

// Of one weight matrix (or of each expert of a packed one).
struct ImatrixEntry {
  std::vector<float> sums;    // sums of squares of the inputs, row_values per slice
  std::vector<float> counts;  // input rows seen, one per slice (1 or the number of experts)
};

struct Imatrix {
  std::string file;  // name without directory
  std::string sha256;
  std::vector<std::string> datasets;
  uint32_t chunks = 0, chunk_tokens = 0;
  std::map<std::string, ImatrixEntry, std::less<>> entries;  // by GGUF tensor name
};

// Either format, told apart by the magic. The file may be hostile.
Result<Imatrix> ReadImatrix(const std::string& path);

// A tensor of which the calibration text did not reach all experts.
struct ImatrixCoverage {
  std::string tensor;
  std::optional<uint32_t> layer;
  uint32_t expert_count = 0;      // 1 for a tensor without experts
  std::vector<uint32_t> missing;  // ids without data
  std::string filled_from;        // "blk.3.ffn_gate_exps.weight", "layer mean", both, "none"
};

struct ImatrixUse {
  std::vector<ImatrixCoverage> coverage;  // of tensors with missing experts, in their order
  size_t used = 0;                        // tensors that got importance
  std::vector<std::string> unknown;       // entries that name no tensor of the model
};

// Sets `importance` of every tensor that has an entry and may change its type: mean squares, one
// row per expert, and per matrix of other three-dimensional weights (MLA's attn_k_b). Experts
// without data take the sibling's row (gate and up share their input), then the mean of the other
// experts of the tensor; a tensor without any data gets none. An entry of another length than the
// tensor needs is kMismatch, for token_embd.weight a warning of the model.
Result<ImatrixUse> ApplyImatrix(const Imatrix& imatrix, GgufModel& model);

// quantize.imatrix.* as llama-quantize writes them.
void NoteImatrix(const Imatrix& imatrix, GgufMetadata& metadata);

}  // namespace moepack
