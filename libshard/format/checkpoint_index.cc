#include "libshard/format/checkpoint_index.h"

#include <algorithm>
#include <map>

#include "libshard/base/json.h"
#include "libshard/base/limits.h"
#include "libshard/base/text.h"
#include "libshard/base/utf8.h"

namespace shard {
namespace {

constexpr uint64_t kMaxIndexBytes = 256u << 20;
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

// Takes "weight_map" and "metadata": {"total_size"} from the events: as a document, the index of a
// large model is larger than everything that is made of it.
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
    if (!IsSafeRelativePath(text)) return WrongFile(Quoted(text));
    auto shard = shards_.find(text);
    if (shard == shards_.end()) {
      shard = shards_.emplace(text, static_cast<uint32_t>(shards_.size())).first;
    }
    index_.file_of.emplace(key_, shard->second);
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
  bool InMap() const { return depth_ == 2 && section_ == "weight_map"; }
  // A value that is no object, and in the map no string.
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
  std::map<std::string, uint32_t, std::less<>> shards_;  // name -> order of appearance
  std::string section_, key_;
  int depth_ = 0;
  bool has_map_ = false;
};

}  // namespace

Result<std::vector<std::string>> ListFiles(const fs::path& directory, std::string_view suffix) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code status_error;
    if (name.ends_with(suffix) && !it->is_directory(status_error)) names.push_back(std::move(name));
  }
  if (error) return Error{Code::kIo, Cat(directory.string(), ": list: ", error.message())};
  std::sort(names.begin(), names.end());
  return names;
}

bool HoldsPath(const fs::path& outer, const fs::path& inner) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

bool IsSafeRelativePath(std::string_view path) {
  const bool strange = std::any_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || c == '\\';
  });
  if (strange || path.size() > kMaxPath || !IsUtf8(path)) return false;
  const std::vector<std::string> parts = Split(path, '/');
  return std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part.empty() || part == "." || part == "..";
  });
}

const std::string* CheckpointIndex::FileOf(const std::string& tensor) const {
  const auto found = file_of.find(tensor);
  return found == file_of.end() ? nullptr : &shards[found->second];
}

Result<CheckpointIndex> ReadCheckpointIndex(const fs::path& path) {
  SHARD_TRY(const std::string text, ReadTextFile(path, kMaxIndexBytes));
  IndexReader reader(path);
  SHARD_CHECK(StreamJson(path.string(), text, reader));
  return std::move(reader).Take();
}

Result<std::optional<fs::path>> FindCheckpointIndex(const fs::path& directory) {
  SHARD_TRY(const std::vector<std::string> names, ListFiles(directory, kIndexSuffix));
  if (names.empty()) return std::optional<fs::path>();
  const std::string usual = Cat("model", kIndexSuffix);
  if (std::find(names.begin(), names.end(), usual) != names.end()) {
    return std::optional(directory / usual);
  }
  if (names.size() == 1) return std::optional(directory / names[0]);
  return Error{Code::kInvalidArgument,
               Cat(directory.string(), ": expected one *", kIndexSuffix, ", found ", names.size(),
                   ": ", Join(names, ", ")),
               "name the index file itself instead of the directory"};
}

Result<std::vector<std::string>> ListSafetensors(const fs::path& directory) {
  return ListFiles(directory, ".safetensors");
}

Status CheckInside(const fs::path& directory, const std::string& name) {
  std::error_code error;
  const fs::path file = directory / name;
  const fs::path real_directory = fs::canonical(directory, error);
  const fs::path real = fs::canonical(file, error);
  if (error) return Error{Code::kNotFound, Cat(file.string(), ": ", error.message())};
  if (HoldsPath(real_directory, real)) return Ok();
  // models--owner--name/snapshots/<revision>/file -> ../../blobs/<digest>: the cache of
  // huggingface_hub.
  const fs::path snapshots = real_directory.parent_path();
  if (snapshots.filename() == "snapshots" && HoldsPath(snapshots.parent_path() / "blobs", real)) {
    return Ok();
  }
  return Error{Code::kCorrupt, Cat(file.string(), ": expected a file inside ", directory.string(),
                                   ", found a link to ", real.string())};
}

}  // namespace shard
