// ReadCheckpointIndex: shard names never lead elsewhere.
#include "libshard/format/checkpoint_index.h"

#include <set>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/local_tree.h"
#include "tests/fuzz/target.h"

namespace checkpoint_index_target {

constexpr const char* kName = "model.safetensors.index.json";

std::vector<std::string> Seeds() {
  return {R"({"metadata": {"total_size": 64}, "weight_map": {"a": "model-1.safetensors",
             "b": "model-2.safetensors", "c": "sub/model.safetensors"}})",
          R"({"weight_map": {"model.layers.0.w": "m.safetensors"}, "metadata": {}})",
          R"({"weight_map": {"x": "..a/b..", "y": "m.safetensors"}, "metadata": null})"};
}

std::string IndexProblem(const moepack::CheckpointIndex& index) {
  std::set<std::string> shards;
  for (const auto& [tensor, file] : index.file_of) {
    if (file >= index.shards.size()) return "a tensor of a shard that is not listed";
    const std::string& shard = index.shards[file];
    if (!moepack::IsSafeRelativePath(shard)) return moepack::Cat("a shard outside: ", shard);
    for (const auto& part : std::filesystem::path(shard)) {
      if (part == ".." || part.is_absolute()) return moepack::Cat("a shard outside: ", shard);
    }
    shards.insert(shard);
  }
  if (index.file_of.empty()) return "no tensors";
  const bool same =
      std::equal(shards.begin(), shards.end(), index.shards.begin(), index.shards.end());
  return same ? "" : "shards is not the sorted set of the files named";
}

std::string Check(std::string_view input) {
  static const fixtures::TempDir dir;
  if (!fuzz::WriteInput(dir / kName, input)) return "cannot write the input";
  const auto index = moepack::ReadCheckpointIndex(moepack::LocalTree(dir.path()), kName);
  return index ? IndexProblem(*index) : fuzz::ErrorProblem(index.error(), kName);
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace checkpoint_index_target

FUZZ_JSON_TARGET(FuzzCheckpointIndex, checkpoint_index_target::kTarget)
