// Importance matrices: the statistics that llama-imatrix collects about the inputs of every weight
// matrix, in its GGUF form and its legacy .dat form.
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
#include "libshard/base/text/expert_ids.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

// The statistics of one weight matrix, or of every expert of a packed one.
struct ImatrixEntry {
  std::vector<float> sums;    // sums of squares of the inputs, row_values per slice
  std::vector<float> counts;  // input rows seen, one per slice (1 or the number of experts)
};

using ImatrixEntries = std::map<std::string, ImatrixEntry, std::less<>>;  // by GGUF tensor name

struct Imatrix {
  std::string file;  // name without directory, which is recorded
  std::string path;  // for messages; "": as `file`
  std::string sha256;
  std::vector<std::string> datasets;
  uint32_t chunks = 0, chunk_tokens = 0;
  // The router digest of the measured model, as in ModelIdentity; "" if the file does not have it,
  // like those of llama-imatrix.
  std::string router_digest;
  ImatrixEntries entries;

  const std::string& shown() const { return path.empty() ? file : path; }
};

// Reads either format; the magic decides which. The file may be hostile.
Result<Imatrix> ReadImatrix(const std::string& path);

// Writes the GGUF form, which llama-quantize reads: entries, datasets, chunks, and the digest if
// there is one. `file`, `path` and `sha256` are not used. What ReadImatrix would refuse is
// kCorrupt, with the name of the entry, before anything is written. `replace` is AtomicFile's.
Status WriteImatrix(const std::string& path, const Imatrix& imatrix, bool replace = true);

// Adds sums and counts to those of the same tensors, in F32. kMismatch, with `where` in front, for
// an entry of another length.
Status AddImatrixEntries(const std::string& where, const ImatrixEntries& from,
                         ImatrixEntries& into);

// A tensor with experts that the calibration text did not reach.
struct ImatrixCoverage {
  std::string tensor;
  std::optional<uint32_t> layer;
  uint32_t expert_count = 0;      // 1 for a tensor without experts
  std::vector<uint32_t> missing;  // ids without data
  std::string filled_from;        // "blk.3.ffn_gate_exps.weight", "layer mean", both, "none"
};

// A tensor that has no entry of its own and uses that of a matrix with the same input.
struct ImatrixLoan {
  std::string tensor, entry;
};

struct ImatrixUse {
  std::vector<ImatrixCoverage> coverage;  // tensors with missing experts, in tensor order
  std::vector<ImatrixLoan> loans;         // in tensor order
  size_t used = 0;                        // tensors that got importance
  // entries that do not name a tensor of the model and that no tensor uses
  std::vector<std::string> unknown;
};

// The names of all matrices of the tensor's block that have the same input, itself first:
// "blk.3.ffn_gate_exps.weight" also gives ffn_up_exps and ffn_gate_up_exps. Only the tensor itself
// if no other matrix has its input.
std::vector<std::string> NamesOfSameInput(const std::string& tensor);

// Sets `importance` of every tensor that has an entry and may change its type. Importance is the
// mean square of each input, with one row per expert (or per matrix of another three-dimensional
// weight, such as MLA's attn_k_b). A tensor without an entry uses one of a matrix with the same
// input, whose numbers are the same: a model may be measured with gate and up in one matrix and
// quantized with two. In the same way an expert without data gets the row of such a matrix, or
// otherwise the mean of the tensor's other experts; a tensor without any data gets no importance.
// An entry whose length does not fit its tensor is kMismatch, except for token_embd.weight, where
// it becomes a warning.
Result<ImatrixUse> ApplyImatrix(const Imatrix& imatrix, GgufModel& model);

// Sets the keys quantize.imatrix.* as llama-quantize does.
void NoteImatrix(const Imatrix& imatrix, GgufMetadata& metadata);

// Entries of an importance matrix that apply to only one group. After a refit a group has its own
// experts under the model's ids, with their own inputs: a column of a down projection may belong to
// another neuron.

// "group.001.blk.3.ffn_up_exps.weight". Such an entry has a row for each expert that the refit gave
// the group in this layer, in ascending id.
std::string GroupEntryName(uint32_t group, std::string_view tensor);
bool IsGroupEntry(std::string_view name);

// The experts that the refit gave the group.
struct GroupExperts {
  uint32_t group = 0;
  ExpertIds ids;  // ascending
};
// The importance of a packed tensor in a group's bundle: the rows of the group's own entry and, for
// all other experts, those of `tensor.importance`, which ApplyImatrix set. If the group has no
// entry, only the latter; null if the tensor has none either. kMismatch for an entry whose length
// does not fit. REQUIRES: the tensor has an expert axis, and the ids are below its length.
Result<std::shared_ptr<const Importance>> GroupImportance(const Imatrix& imatrix,
                                                          const GgufTensor& tensor,
                                                          const GroupExperts& experts);

}  // namespace moepack
