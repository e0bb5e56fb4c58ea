// The keys, and the rules that the runtime applies to them, are from llama.cpp's src/llama-hparams
// and the graphs in src/models. A broken rule aborts the process that loads the file.
#include "libshard/convert/gguf_cut.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/model/gguf_routing.h"

namespace moepack {
namespace {

// A group's score is the sum of its two best experts, so it needs two.
constexpr uint64_t kLeastPerGroup = 2;
constexpr uint32_t kMaxGroups = 1u << 16;

class KeyCutter {
 public:
  KeyCutter(const std::string& where, const ExpertCut& cut, GgufMetadata& metadata,
            std::vector<std::string>& notes)
      : where_(where),
        cut_(cut),
        metadata_(metadata),
        notes_(notes),
        architecture_(metadata.Architecture()),
        row_(FindArchitecture(architecture_)) {}

  Status Run() {
    SHARD_CHECK(ReadCount());
    SHARD_CHECK(CheckEligible());
    if (cut_.expert_count == experts_) return Ok();
    SHARD_CHECK(CheckArchitecture());
    SHARD_CHECK(CheckKeys());
    SHARD_CHECK(LowerUsed());
    metadata_.Set(Key("expert_count"), GgufValue::U32(cut_.expert_count));
    return KeepOrDropGroups();
  }

 private:
  std::string Key(std::string_view name) const { return Cat(architecture_, ".", name); }
  Error Unsupported(std::string_view key, const std::string& text, const char* hint = "") const {
    return {Code::kUnsupported, Cat(where_, ": key ", Quoted(Key(key)), ": ", text), hint};
  }

  Status ReadCount();
  Status CheckEligible() const;
  Status CheckArchitecture() const;
  Status CheckKeys() const;
  Status LowerUsed();
  Status KeepOrDropGroups();
  std::string GroupProblem(uint64_t groups) const;
  bool KeepsEqually(const ExpertIds& ids, uint64_t groups) const;
  void DropGroups(const std::string& why);

  const std::string& where_;
  const ExpertCut& cut_;
  GgufMetadata& metadata_;
  std::vector<std::string>& notes_;
  std::string architecture_;
  const GgufArchitecture* row_;  // null for an architecture that llama.cpp lacks
  uint32_t experts_ = 0;         // of the source
  uint64_t most_used_ = 0;
};

Status KeyCutter::ReadCount() {
  const GgufValue* value = metadata_.Find(Key("expert_count"));
  const auto count = value == nullptr ? std::nullopt : value->AsUint();
  if (value != nullptr && value->type == GgufType::kArray) {
    return Unsupported("expert_count", "expected one number for all layers, found a list");
  }
  if (!count || *count < cut_.expert_count || *count > UINT32_MAX || cut_.expert_count == 0) {
    return Error{Code::kInvalidArgument,
                 Cat(where_, ": key ", Quoted(Key("expert_count")), ": expected at least ",
                     std::max(cut_.expert_count, 1u), " experts to keep ", cut_.expert_count,
                     " of, found ", count ? Cat(*count) : "none")};
  }
  experts_ = static_cast<uint32_t>(*count);
  return Ok();
}

Status KeyCutter::CheckEligible() const {
  for (const auto& [layer, ids] : cut_.eligible) {
    if (ids.size() != cut_.expert_count) {
      return Unsupported("expert_count",
                         Cat("expected ", Plural(cut_.expert_count, "expert"),
                             " in every layer, found ", ids.size(), " in layer ", layer),
                         "plan with equal counts (the default fills groups up)");
    }
    if (!ids.empty() && ids.back() >= experts_) {
      return Error{Code::kInvalidArgument, Cat(where_, ": layer ", layer, ": expected ids below ",
                                               experts_, ", found ", ids.back())};
    }
  }
  return Ok();
}

Status KeyCutter::CheckArchitecture() const {
  if (row_ == nullptr) return Ok();
  const uint64_t special = row_->experts_without_norm;
  if (special == 0 || (experts_ != special && cut_.expert_count != special)) return Ok();
  return Unsupported("expert_count",
                     Cat("expected any count but ", special, " before and after, found ", experts_,
                         " cut to ", cut_.expert_count,
                         ": llama.cpp takes the count for a sign of Maverick and normalises "
                         "queries and keys for every other one"),
                     "split this model as safetensors, or keep all experts");
}

// Every key about experts is either known or refused.
Status KeyCutter::CheckKeys() const {
  const std::string start = architecture_ + ".";
  for (const GgufEntry& entry : metadata_.entries()) {
    if (!std::string_view(entry.key).starts_with(start)) continue;
    const std::string_view name = std::string_view(entry.key).substr(start.size());
    const bool set = entry.value.AsUint().value_or(1) != 0;
    if (name == "hash_layer_count" && set) {
      return Unsupported(name,
                         "expected routing by scores, found layers that look expert ids up "
                         "in a table, which would have to be rewritten");
    }
    if (name.starts_with("experts_per_group") || name.starts_with("expert_chunk_")) {
      return Unsupported(name,
                         "expected experts of their own, found experts that share chunks, "
                         "which cannot be told apart once some are gone");
    }
    if (name.find("expert") == std::string_view::npos) continue;
    if (IsKnownExpertKey(name)) continue;
    return Unsupported(name,
                       "expected a key known to moepack, found one that may depend on the "
                       "number of experts");
  }
  return Ok();
}

Status KeyCutter::LowerUsed() {
  const std::string key = Key("expert_used_count");
  const GgufValue* value = metadata_.Find(key);
  if (value == nullptr) return Ok();
  const auto used = value->AsUints();
  if (!used || used->empty()) {
    return Error{Code::kCorrupt, Cat(where_, ": key ", Quoted(key),
                                     ": expected a number or one per layer, found a value of type ",
                                     GgufTypeName(value->type))};
  }
  const uint64_t before = *std::max_element(used->begin(), used->end());
  most_used_ = std::min<uint64_t>(before, cut_.expert_count);
  if (before == most_used_) return Ok();
  SHARD_CHECK(KeepExpertWidth(where_, used->front(), metadata_));
  std::vector<uint32_t> lowered;
  for (const uint64_t one : *used) {
    lowered.push_back(static_cast<uint32_t>(std::min<uint64_t>(one, cut_.expert_count)));
  }
  const bool list = metadata_.Find(key)->type == GgufType::kArray;
  metadata_.Set(key, list ? GgufValue::U32s(lowered) : GgufValue::U32(lowered.front()));
  notes_.push_back(Cat(key, " is lowered from ", before, " to ", most_used_,
                       ": there are no more experts to choose from"));
  return Ok();
}

bool KeyCutter::KeepsEqually(const ExpertIds& ids, uint64_t groups) const {
  std::vector<uint64_t> kept(groups);
  for (const uint32_t id : ids) ++kept[id / (experts_ / groups)];
  return std::all_of(kept.begin(), kept.end(),
                     [&](uint64_t n) { return n == kept[0] && n >= kLeastPerGroup; });
}

// Returns why the groups cannot stay, or "" if they can. Groups are runs of ids of equal length.
std::string KeyCutter::GroupProblem(uint64_t groups) const {
  if (groups > kMaxGroups || experts_ % groups != 0) return "the groups are not of equal size";
  for (const auto& [layer, ids] : cut_.eligible) {
    if (!KeepsEqually(ids, groups)) {
      return Cat("layer ", layer, " does not keep equally many experts of each group, at least ",
                 kLeastPerGroup);
    }
  }
  const uint64_t used = metadata_.Uint(Key("expert_group_used_count")).value_or(0);
  const uint64_t choice = std::min(used, groups) * (cut_.expert_count / groups);
  if (most_used_ <= choice && cut_.expert_count % groups == 0) return "";
  return Cat("the ", used, " groups a token may use keep ", choice, " experts, fewer than the ",
             most_used_, " to choose");
}

void KeyCutter::DropGroups(const std::string& why) {
  metadata_.Remove(Key("expert_group_count"));
  metadata_.Remove(Key("expert_group_used_count"));
  notes_.push_back(
      Cat("the keys of routing groups are removed, so experts are chosen from all "
          "groups: ",
          why));
}

Status KeyCutter::KeepOrDropGroups() {
  const uint64_t groups = metadata_.Uint(Key("expert_group_count")).value_or(0);
  if (groups == 0) return Ok();
  if (groups >= cut_.expert_count) {
    DropGroups(Cat("llama.cpp aborts unless there are fewer groups (", groups, ") than experts (",
                   cut_.expert_count, ")"));
    return Ok();
  }
  const std::string problem = groups == 1 ? "" : GroupProblem(groups);
  if (!problem.empty()) DropGroups(problem);
  return Ok();
}

}  // namespace

Status CutMetadata(const std::string& where, const ExpertCut& cut, GgufMetadata& metadata,
                   std::vector<std::string>& notes) {
  return KeyCutter(where, cut, metadata, notes).Run();
}

Status KeepExpertWidth(const std::string& where, uint64_t used, GgufMetadata& metadata) {
  const std::string architecture = metadata.Architecture();
  const GgufArchitecture* const row = FindArchitecture(architecture);
  const std::string key = Cat(architecture, ".expert_feed_forward_length");
  const bool given = metadata.Find(key) != nullptr, derives = row != nullptr && row->derives_width;
  if (given ? metadata.Uint(key) != 0u : !derives) return Ok();
  const auto dense = metadata.Uint(Cat(architecture, ".feed_forward_length"));
  if (!dense || used == 0 || *dense % used != 0 || *dense > UINT32_MAX)
    return Error{Code::kUnsupported,
                 Cat(where, ": key ", Quoted(key),
                     ": expected the width of an expert, found none and no way to work it out")};
  metadata.Set(key, GgufValue::U32(static_cast<uint32_t>(*dense / used)));
  return Ok();
}

Status SetUsedExperts(const std::string& where, uint32_t top_k, GgufMetadata& metadata) {
  const std::string key = Cat(metadata.Architecture(), ".expert_used_count");
  const GgufValue* const value = metadata.Find(key);
  const auto used = value == nullptr ? std::nullopt : value->AsUints();
  if (!used || used->empty())
    return Error{Code::kCorrupt,
                 Cat(where, ": key ", Quoted(key), ": expected a number or one per layer, found ",
                     value == nullptr ? "none" : GgufTypeName(value->type))};
  const bool list = value->type == GgufType::kArray;
  SHARD_CHECK(KeepExpertWidth(where, used->front(), metadata));
  if (!list) {
    metadata.Set(key, GgufValue::U32(top_k));
    return Ok();
  }
  std::vector<uint32_t> layers;
  for (const uint64_t one : *used) layers.push_back(one == 0 ? 0 : top_k);
  metadata.Set(key, GgufValue::U32s(layers));
  return Ok();
}

}  // namespace moepack
