#include "libshard/format/checkpoint_index.h"

#include <algorithm>
#include <map>

#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxIndexBytes = 256u << 20;
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

// Takes "weight_map" and "metadata": {"total_size"} straight from the parser's events. As a JSON
// document, a large model's index would take more memory than everything made from it.
class IndexReader : public JsonEvents {
 public:
  explicit IndexReader(const fs::path& path) { index_.path = path; }

  Result<CheckpointIndex> Take() && {
    if (!has_map_) return WrongMap("nothing");
    if (index_.file_of.empty()) {
      return Error{Code::kCorrupt,
                   Cat(index_.path.string(), ": weight_map: expected tensors, found none")};
    }
    std::vector<uint32_t> sorted(shards_.size());
    for (const auto& [name, number] : shards_) {
      sorted[number] = static_cast<uint32_t>(index_.shards.size());
      index_.shards.push_back(name);
    }
    for (auto& [tensor, file] : index_.file_of) file = sorted[file];
    return std::move(index_);
  }

  Status StartObject() override {
    if (InMap()) return WrongFile("an object");
    if (depth_++ == 1 && section_ == "weight_map") has_map_ = true;
    return Ok();
  }
  Status EndObject() override {
    --depth_;
    return Ok();
  }
  Status StartArray() override {
    SHARD_CHECK(Other("an array"));
    ++depth_;
    return Ok();
  }
  Status EndArray() override {
    --depth_;
    return Ok();
  }
  Status Key(std::string_view key) override {
    (depth_ == 1 ? section_ : key_) = key;
    return Ok();
  }
  Status String(std::string_view text) override {
    if (!InMap()) return Other(Quoted(text));
    // Neighbours are usually in the same shard.
    if (last_ == shards_.end() || last_->first != text) SHARD_CHECK(FindShard(text));
    index_.file_of.emplace_back(key_, last_->second);  // the parser lets no key occur twice
    return Ok();
  }
  Status Unsigned(uint64_t number) override {
    if (depth_ == 2 && section_ == "metadata" && key_ == "total_size") index_.total_size = number;
    return Other(Cat(number));
  }
  Status Negative(int64_t number) override { return Other(Cat(number)); }
  Status Float(double number) override { return Other(Cat(number)); }
  Status Bool(bool value) override { return Other(value ? "true" : "false"); }
  Status Null() override { return Other("null"); }

 private:
  using Shards = std::map<std::string, uint32_t, std::less<>>;

  bool InMap() const { return depth_ == 2 && section_ == "weight_map"; }
  Status FindShard(std::string_view name) {
    last_ = shards_.find(name);
    if (last_ != shards_.end()) return Ok();
    if (!IsSafeRelativePath(name)) return WrongFile(Quoted(name));
    last_ = shards_.emplace(name, static_cast<uint32_t>(shards_.size())).first;
    return Ok();
  }
  // Handles every value that is not an object, or, inside the map, not a string.
  Status Other(const std::string& found) const {
    if (InMap()) return WrongFile(found);
    if (depth_ == 0 || (depth_ == 1 && section_ == "weight_map")) return WrongMap(found);
    return Ok();
  }
  Error WrongMap(const std::string& found) const {
    return {Code::kCorrupt,
            Cat(index_.path.string(), ": weight_map: expected an object, found ", found)};
  }
  Error WrongFile(const std::string& found) const {
    return {Code::kCorrupt, Cat(index_.path.string(), ": weight_map: tensor ", Quoted(key_),
                                ": expected a file inside the directory, found ", found)};
  }

  CheckpointIndex index_;
  Shards shards_;                                // name -> order of appearance
  Shards::const_iterator last_ = shards_.end();  // of the previous tensor
  std::string section_, key_;
  int depth_ = 0;
  bool has_map_ = false;
};

}  // namespace

Result<CheckpointIndex> ReadCheckpointIndex(const SourceTree& tree, const std::string& file) {
  SHARD_TRY(const std::string text, tree.ReadText(file, kMaxIndexBytes));
  const std::string where = tree.NameOf(file);
  IndexReader reader(where);
  SHARD_CHECK(StreamJson(where, text, reader));
  return std::move(reader).Take();
}

Result<std::optional<std::string>> FindCheckpointIndex(const SourceTree& tree) {
  SHARD_TRY(const std::vector<std::string> names, tree.List("", kIndexSuffix));
  if (names.empty()) return std::optional<std::string>();
  const std::string usual = Cat("model", kIndexSuffix);
  if (std::find(names.begin(), names.end(), usual) != names.end()) return std::optional(usual);
  if (names.size() == 1) return std::optional(names[0]);
  return Error{Code::kInvalidArgument,
               Cat(tree.name(), ": expected one *", kIndexSuffix, ", found ", names.size(), ": ",
                   Join(names, ", ")),
               "name the index file itself instead of the directory"};
}

}  // namespace moepack
