#include "libshard/recipe/imatrix.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/base/text_map.h"
#include "libshard/model/gguf_keys.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

// llama-quantize stores at most this many bytes of text in a key (`val_str[128]` of
// llama_model_kv_override in llama.h, with its zero byte).
constexpr size_t kMaxNote = 127;

// The mean squares of one tensor, with a row for each slice (an expert, or a matrix of a
// three-dimensional weight).
struct Means {
  GgufTensor* tensor = nullptr;
  uint64_t row_values = 0, slices = 0;
  std::vector<float> values;  // slices x row_values
  std::vector<bool> seen;     // whether the calibration text reached the slice

  std::span<float> Row(size_t slice) {
    return std::span(values).subspan(slice * row_values, row_values);
  }
};

uint64_t SlicesOf(const GgufTensor& tensor) {
  return tensor.shape.size() < 3 ? 1 : tensor.shape[tensor.shape.size() - 3];
}

// Each value is one division of floats, as in llama-quantize: a product with the reciprocal would
// round differently and change bytes.
Means MeansOf(const ImatrixEntry& entry, GgufTensor& tensor) {
  Means means{.tensor = &tensor,
              .row_values = tensor.row_values(),
              .slices = SlicesOf(tensor),
              .values = entry.sums,
              .seen = {}};
  means.seen.resize(means.slices);
  for (size_t slice = 0; slice < means.slices; ++slice) {
    const std::span<float> row = means.Row(slice);
    const float count = entry.counts[entry.counts.size() == 1 ? 0 : slice];
    if (count > 0) {
      for (float& value : row) value /= count;
    }
    // The legacy format has a single count for all experts, and ones for those without data.
    const bool placeholder = entry.counts.size() == 1 && tensor.expert_count > 0 &&
                             std::all_of(row.begin(), row.end(), [](float x) { return x == 1; });
    means.seen[slice] = count > 0 && !placeholder;
  }
  return means;
}

// Matrices of a block that multiply the same vector. llama-imatrix measures that vector under the
// name of each matrix, or of one that holds several of them.
constexpr std::array<std::string_view, 11> kAttentionInput = {
    "attn_q",        "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_q_a",
    "attn_kv_a_mqa", "ssm_in", "ssm_ba", "ssm_beta", "ssm_alpha"};
constexpr std::array<std::string_view, 2> kDenseInput = {"ffn_gate", "ffn_up"};
constexpr std::array<std::string_view, 3> kExpertInput = {"ffn_gate_exps", "ffn_up_exps",
                                                          "ffn_gate_up_exps"};
constexpr std::array<std::string_view, 3> kSharedInput = {"ffn_gate_shexp", "ffn_up_shexp",
                                                          "ffn_gate_up_shexp"};
constexpr std::array<std::string_view, 2> kChunkInput = {"ffn_gate_chexps", "ffn_up_chexps"};
constexpr std::span<const std::string_view> kSameInput[] = {
    kAttentionInput, kDenseInput, kExpertInput, kSharedInput, kChunkInput};
constexpr std::string_view kWeight = ".weight";

class Applier {
 public:
  Applier(const Imatrix& imatrix, GgufModel& model) : imatrix_(imatrix), model_(model) {}

  Result<ImatrixUse> Apply() {
    for (GgufTensor& tensor : model_.tensors) SHARD_CHECK(Measure(tensor));
    FindUnknown();
    for (Means& means : means_) Complete(means);
    for (Means& means : means_) Give(means);
    return std::move(use_);
  }

 private:
  void FindUnknown() {
    TextSet<std::string_view> names;
    for (const GgufTensor& tensor : model_.tensors) names.insert(tensor.name);
    for (const auto& [name, entry] : imatrix_.entries) {
      if (!names.contains(name) && !lent_.contains(name) && !IsGroupEntry(name))
        use_.unknown.push_back(name);
    }
  }

  static bool Fits(const ImatrixEntry& entry, const GgufTensor& tensor) {
    const uint64_t slices = SlicesOf(tensor);
    const size_t counts = entry.counts.size();
    return entry.sums.size() == tensor.row_values() * slices && (counts == 1 || counts == slices);
  }

  Status Measure(GgufTensor& tensor) {
    if (!MayChange(tensor)) return Ok();
    const auto found = imatrix_.entries.find(tensor.name);
    if (found == imatrix_.entries.end()) {
      Borrow(tensor);
      return Ok();
    }
    const ImatrixEntry& entry = found->second;
    if (Fits(entry, tensor)) {
      means_.push_back(MeansOf(entry, tensor));
      return Ok();
    }
    const uint64_t slices = SlicesOf(tensor);
    std::string message = Cat(imatrix_.shown(), ": entry ", Quoted(tensor.name), ": expected ",
                              tensor.row_values() * slices, " sums with ",
                              slices == 1 ? "1 count" : Cat("1 or ", slices, " counts"), ", found ",
                              entry.sums.size(), " with ", entry.counts.size());
    if (tensor.name != "token_embd.weight") {
      return Error{Code::kMismatch, message, "use an importance matrix made from this model"};
    }
    // The embedding is a look-up and not a product, so measurements for it are meaningless.
    // llama-quantize ignores them, too.
    model_.warnings.push_back(message + "; quantized without importance");
    return Ok();
  }

  // Takes the first entry of another matrix with the same input.
  void Borrow(GgufTensor& tensor) {
    for (const std::string& name : NamesOfSameInput(tensor.name)) {
      const auto found = imatrix_.entries.find(name);
      if (found == imatrix_.entries.end() || !Fits(found->second, tensor)) continue;
      means_.push_back(MeansOf(found->second, tensor));
      use_.loans.push_back({tensor.name, name});
      lent_.insert(found->first);
      return;
    }
  }

  // Gives every slice a row and reports the slices that had no data.
  void Complete(Means& means) {
    const auto missing =
        static_cast<uint32_t>(std::count(means.seen.begin(), means.seen.end(), false));
    if (missing == 0) return;
    const GgufTensor& tensor = *means.tensor;
    ImatrixCoverage coverage{.tensor = tensor.name,
                             .layer = tensor.layer,
                             .expert_count = static_cast<uint32_t>(means.slices),
                             .missing = {},
                             .filled_from = {}};
    for (uint32_t slice = 0; slice < means.slices; ++slice) {
      if (!means.seen[slice]) coverage.missing.push_back(slice);
    }
    std::vector<std::string> from;
    std::vector<bool> have = means.seen;
    TakeSameInput(means, have, from);
    if (TakeMean(means, have)) from.emplace_back("layer mean");
    coverage.filled_from = from.empty() ? "none" : Join(from, ", ");
    use_.coverage.push_back(std::move(coverage));
    if (from.empty()) means.values.clear();
  }

  // Takes measured rows of other matrices with the same input, and adds the names of these. Such a
  // row is not an estimate but the same data.
  void TakeSameInput(Means& means, std::vector<bool>& have, std::vector<std::string>& from) {
    for (const std::string& name : NamesOfSameInput(means.tensor->name)) {
      const auto found = imatrix_.entries.find(name);
      if (found == imatrix_.entries.end() || !Fits(found->second, *means.tensor)) continue;
      Means other = MeansOf(found->second, *means.tensor);
      bool taken = false;
      for (size_t slice = 0; slice < means.slices; ++slice) {
        if (have[slice] || !other.seen[slice]) continue;
        const std::span<const float> row = other.Row(slice);
        std::copy(row.begin(), row.end(), means.Row(slice).begin());
        have[slice] = taken = true;
      }
      if (taken) from.push_back(name);
    }
  }

  // Fills the remaining slices with the mean of the existing rows, and returns whether any was
  // filled.
  static bool TakeMean(Means& means, const std::vector<bool>& have) {
    const auto count = std::count(have.begin(), have.end(), true);
    if (count == 0 || count == std::ssize(have)) return false;
    std::vector<double> sum(means.row_values);
    for (size_t slice = 0; slice < means.slices; ++slice) {
      if (!have[slice]) continue;
      const std::span<const float> row = means.Row(slice);
      for (size_t i = 0; i < row.size(); ++i) sum[i] += row[i];
    }
    for (size_t slice = 0; slice < means.slices; ++slice) {
      if (have[slice]) continue;
      const std::span<float> row = means.Row(slice);
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<float>(sum[i] / static_cast<double>(count));
      }
    }
    return true;
  }

  void Give(Means& means) {
    if (means.values.empty()) return;
    auto importance = std::make_shared<Importance>();
    importance->row_values = means.row_values;
    importance->values = std::move(means.values);
    importance->digest = Xxh3Hex(std::as_bytes(std::span(importance->values)));
    means.tensor->importance = std::move(importance);
    ++use_.used;
  }

  const Imatrix& imatrix_;
  GgufModel& model_;
  std::vector<Means> means_;        // in the order of the tensors
  TextSet<std::string_view> lent_;  // entries that tensors of other names use
  ImatrixUse use_;
};

// Adds to values that are not there yet by taking them as they are.
bool AddValues(const std::vector<float>& from, std::vector<float>& into) {
  if (into.empty()) {
    into = from;
    return true;
  }
  if (from.size() != into.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) into[i] += from[i];
  return true;
}

}  // namespace

Status AddImatrixEntries(const std::string& where, const ImatrixEntries& from,
                         ImatrixEntries& into) {
  for (const auto& [name, entry] : from) {
    ImatrixEntry& sum = into[name];
    if (AddValues(entry.counts, sum.counts) && AddValues(entry.sums, sum.sums)) continue;
    return Error{
        Code::kMismatch,
        Cat(where, ": entry ", Quoted(name), ": expected ", sum.sums.size(), " sums and ",
            sum.counts.size(), " counts, found ", entry.sums.size(), " and ", entry.counts.size())};
  }
  return Ok();
}

std::vector<std::string> NamesOfSameInput(const std::string& tensor) {
  std::vector<std::string> names = {tensor};
  const std::optional<BlockName> block = ParseBlockName(tensor);
  if (!block || !block->rest.ends_with(kWeight)) return names;
  const std::string_view matrix = block->rest.substr(0, block->rest.size() - kWeight.size());
  for (const std::span<const std::string_view> input : kSameInput) {
    if (std::find(input.begin(), input.end(), matrix) == input.end()) continue;
    for (const std::string_view other : input) {
      if (other != matrix) names.push_back(Cat("blk.", block->block, ".", other, kWeight));
    }
  }
  return names;
}

Result<ImatrixUse> ApplyImatrix(const Imatrix& imatrix, GgufModel& model) {
  return Applier(imatrix, model).Apply();
}

void NoteImatrix(const Imatrix& imatrix, GgufMetadata& metadata) {
  metadata.Set("quantize.imatrix.file", GgufValue::String(WholeCharacters(imatrix.file, kMaxNote)));
  if (!imatrix.datasets.empty()) {
    metadata.Set("quantize.imatrix.dataset",
                 GgufValue::String(WholeCharacters(imatrix.datasets.front(), kMaxNote)));
  }
  metadata.Set("quantize.imatrix.entries_count",
               GgufValue::U32(static_cast<uint32_t>(imatrix.entries.size())));
  if (imatrix.chunks == 0) return;
  metadata.Set("quantize.imatrix.chunks_count", GgufValue::U32(imatrix.chunks));
}

namespace {

constexpr std::string_view kGroupPrefix = "group.";
constexpr unsigned kGroupDigits = 3;

Error WrongLength(const Imatrix& imatrix, const std::string& name, const ImatrixEntry& entry,
                  size_t expert_count, uint64_t row) {
  return {Code::kMismatch,
          Cat(imatrix.shown(), ": entry ", Quoted(name), ": expected ", expert_count * row,
              " sums with ", Plural(expert_count, "count"), ", found ", entry.sums.size(), " with ",
              entry.counts.size()),
          "use the importance matrix of this refit"};
}

}  // namespace

std::string GroupEntryName(uint32_t group, std::string_view tensor) {
  return Cat(kGroupPrefix, ZeroPadded(group, kGroupDigits), ".", tensor);
}

bool IsGroupEntry(std::string_view name) { return name.starts_with(kGroupPrefix); }

Result<std::shared_ptr<const Importance>> GroupImportance(const Imatrix& imatrix,
                                                          const GgufTensor& tensor,
                                                          const GroupExperts& experts) {
  std::string name;
  auto found = imatrix.entries.end();
  for (const std::string& matrix : NamesOfSameInput(tensor.name)) {
    if (found != imatrix.entries.end()) break;
    name = GroupEntryName(experts.group, matrix);
    found = imatrix.entries.find(name);
  }
  if (found == imatrix.entries.end() || tensor.importance == nullptr) return tensor.importance;
  const ImatrixEntry& entry = found->second;
  const uint64_t row = tensor.row_values();
  const size_t count = experts.ids.size();
  if (entry.counts.size() != count || entry.sums.size() != count * row)
    return WrongLength(imatrix, name, entry, count, row);
  auto own = std::make_shared<Importance>();
  own->row_values = row;
  // Experts that the group did not refit keep the rows of the whole matrix.
  for (uint64_t id = 0; id < tensor.expert_count; ++id) {
    const std::span<const float> all = tensor.importance->Row(id);
    own->values.insert(own->values.end(), all.begin(), all.end());
  }
  for (size_t i = 0; i < count; ++i) {
    // An expert that no token chose has no data of its own.
    if (entry.counts[i] <= 0) continue;
    const auto to = own->values.begin() + static_cast<std::ptrdiff_t>(experts.ids[i] * row);
    for (uint64_t column = 0; column < row; ++column)
      to[static_cast<std::ptrdiff_t>(column)] = entry.sums[i * row + column] / entry.counts[i];
  }
  own->digest = Xxh3Hex(std::as_bytes(std::span(own->values)));
  return std::shared_ptr<const Importance>(std::move(own));
}

}  // namespace moepack
