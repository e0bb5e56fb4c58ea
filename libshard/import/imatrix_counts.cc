// Counts per expert from importance matrices of llama.cpp. Its GGUF form has, for every packed
// expert tensor, `<name>.counts` of one number per expert: how many tokens chose it. The sums of
// squares, which are nearly all of the file, are not read.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"
#include "libshard/model/gguf_keys.h"
#include "libshard/recipe/imatrix_read.h"

namespace moepack {
namespace {

constexpr std::string_view kCountsEnd = ".weight.counts";
constexpr double kMostTokens = 1e15;  // whole numbers of doubles reach farther
// gate and up have the same input, and down the same experts, so any of them will do.
constexpr std::array<std::string_view, 4> kExpertTensors = {"ffn_gate_exps", "ffn_up_exps",
                                                            "ffn_gate_up_exps", "ffn_down_exps"};

// Every token passes the router of a layer once.
constexpr std::string_view kRouterMatrix = "ffn_gate_inp";

// "blk.<layer>.<matrix>.weight.counts"; no value for other names.
struct CountsName {
  uint64_t layer = 0;
  std::string_view matrix;

  bool of_experts() const {
    return std::find(kExpertTensors.begin(), kExpertTensors.end(), matrix) != kExpertTensors.end();
  }
};
std::optional<CountsName> ParseCountsName(std::string_view name) {
  const std::optional<BlockName> block = ParseBlockName(name);
  if (!block || !block->rest.ends_with(kCountsEnd)) return std::nullopt;
  return CountsName{block->block, block->rest.substr(0, block->rest.size() - kCountsEnd.size())};
}

Error OneCount(const std::string& where, const std::string& thing) {
  return {Code::kUnsupported,
          Cat(where, ": ", thing,
              ": expected one count per expert, found one for all of them, which says nothing of "
              "which experts were chosen"),
          "llama-imatrix writes counts per expert in its GGUF form (--output-format gguf)"};
}

Result<std::vector<double>> ReadCounts(const ByteSource& file, const TensorEntry& tensor) {
  if (tensor.format == nullptr || tensor.format->name != "f32" ||
      tensor.bytes > kMaxStatisticsExperts * sizeof(float) || tensor.bytes == 0)
    return Error{Code::kCorrupt,
                 Cat(file.name(), ": tensor ", Quoted(tensor.name), ": expected 1 to ",
                     kMaxStatisticsExperts, " F32 values, found ", tensor.bytes, " bytes of ",
                     tensor.dtype)};
  std::vector<float> values(tensor.bytes / sizeof(float));
  SHARD_CHECK(file.ReadAt(tensor.offset, std::as_writable_bytes(std::span(values))));
  std::vector<double> counts;
  for (const float value : values) counts.push_back(std::round(double{value}));
  return counts;
}

// The tokens that a router counted.
Result<uint64_t> ReadRouterCount(const ByteSource& file, const TensorEntry& tensor) {
  SHARD_TRY(const std::vector<double> counts, ReadCounts(file, tensor));
  if (counts.size() == 1 && counts[0] >= 0 && counts[0] <= kMostTokens)
    return static_cast<uint64_t>(counts[0]);
  return Error{Code::kCorrupt, Cat(file.name(), ": tensor ", Quoted(tensor.name),
                                   ": expected one number of tokens, found ",
                                   counts.size() == 1 ? Cat(counts[0]) : Cat(counts.size()))};
}

// "imatrix.chunk_count" chunks of "imatrix.chunk_size" tokens; 0 if a key is missing. Chunks may be
// shorter, so this is only for files without counts of routers.
uint64_t TokensOfChunks(const GgufMetadata& metadata) {
  const auto chunks = metadata.Uint("imatrix.chunk_count");
  const auto size = metadata.Uint("imatrix.chunk_size");
  return chunks && size ? CheckedMul(*chunks, *size).value_or(0) : 0;
}

Status CheckIsImatrix(const std::string& where, const GgufMetadata& metadata) {
  const auto type = metadata.String("general.type");
  if (type.value_or("") == "imatrix") return Ok();
  return Error{Code::kUnsupported, Cat(where, ": general.type: expected \"imatrix\", found ",
                                       type ? Quoted(*type) : "none")};
}

// How many experts the router chose per token, if the counts belong to these tokens.
uint32_t TopKOfCounts(const std::vector<double>& counts, uint64_t tokens) {
  double sum = 0;
  for (const double count : counts) sum += count;
  const double top_k = tokens > 0 ? sum / static_cast<double>(tokens) : 0;
  const bool whole =
      top_k >= 1 && top_k == std::floor(top_k) && top_k <= static_cast<double>(counts.size());
  return whole ? static_cast<uint32_t>(top_k) : 0;
}

struct ImatrixCounts {
  std::map<uint64_t, std::vector<double>> by_layer;
  std::vector<uint64_t> different;  // layers whose tensors disagree
  uint64_t tokens = 0;              // the most that a router counted
};

Status AddTensorCounts(const ByteSource& file, const TensorEntry& tensor, ImatrixCounts& out) {
  const auto name = ParseCountsName(tensor.name);
  if (!name) return Ok();
  if (name->matrix == kRouterMatrix) {
    SHARD_TRY(const uint64_t tokens, ReadRouterCount(file, tensor));
    out.tokens = std::max(out.tokens, tokens);
  }
  if (!name->of_experts()) return Ok();
  SHARD_TRY(std::vector<double> counts, ReadCounts(file, tensor));
  if (counts.size() == 1) return OneCount(file.name(), Cat("tensor ", Quoted(tensor.name)));
  const auto [known, added] = out.by_layer.try_emplace(name->layer, counts);
  if (!added && known->second != counts) out.different.push_back(name->layer);
  return Ok();
}

Result<ExpertScores> ReadImatrixCounts(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_CHECK(CheckBasis(where, ScoreBasis::kCount, options));
  SHARD_TRY(const GgufHeader header, ReadGgufHeader(file, where));
  SHARD_CHECK(CheckIsImatrix(where, header.metadata));
  ImatrixCounts found;
  for (const TensorEntry& tensor : header.tensors)
    SHARD_CHECK(AddTensorCounts(file, tensor, found));
  if (found.by_layer.empty())
    return Error{Code::kUnsupported,
                 Cat(where,
                     ": expected counts of ffn_gate_exps, ffn_up_exps or ffn_down_exps, "
                     "found none"),
                 "this importance matrix is of a model without experts"};
  ScoreTable table;
  table.tokens = found.tokens > 0 ? found.tokens : TokensOfChunks(header.metadata);
  table.top_k = TopKOfCounts(found.by_layer.begin()->second, table.tokens);
  for (auto& [layer, counts] : found.by_layer) table.rows.push_back({layer, std::move(counts)});
  if (!found.different.empty())
    table.warnings.push_back(Cat(where, ": layer ", found.different.front(),
                                 ": counts of its tensors differ; the first one is taken"));
  SHARD_TRY(ExpertScores scores, ScoresFromTable(where, std::move(table), options));
  SHARD_TRY(scores.router_digest, ImatrixRouters(where, header.metadata));
  return scores;
}

Result<ExpertScores> RefuseOldImatrix(const ByteSource& file, const ImportOptions&) {
  return OneCount(file.name(), "legacy importance matrix");
}

bool LooksLikeGguf(std::string_view head) { return head.starts_with("GGUF"); }

// The format has no magic: it starts with the number of entries, the length of the first name, and
// the name.
bool LooksLikeOldImatrix(std::string_view head) {
  constexpr uint32_t kMostEntries = 1u << 20, kLongestName = 256;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(head));
  if (bytes.size() < 2 * sizeof(uint32_t)) return false;
  const auto entries = LoadLe<uint32_t>(bytes);
  const auto length = LoadLe<uint32_t>(bytes.subspan(sizeof(uint32_t)));
  const std::string_view name = head.substr(2 * sizeof(uint32_t), length);
  return entries > 0 && entries <= kMostEntries && length <= kLongestName &&
         name.size() == length && name.ends_with(".weight");
}

}  // namespace

constinit const Importer kImatrixImporter = {
    "imatrix", "importance matrices of llama.cpp (GGUF): how many tokens chose each expert",
    LooksLikeGguf, ReadImatrixCounts};

constinit const Importer kOldImatrixImporter = {
    "imatrix-legacy", "the .dat form of these, which is refused: it has no counts per expert",
    LooksLikeOldImatrix, RefuseOldImatrix};

}  // namespace moepack
