// Checkpoint::Open on a directory with an index and two shards, one of which is the input.
#include "libshard/format/checkpoint.h"

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "tests/fuzz/target.h"

namespace checkpoint_target {

// The first byte of an input chooses the file that the rest replaces.
constexpr std::array<const char*, 3> kNames = {"model.safetensors.index.json",
                                               "model-00001-of-00002.safetensors",
                                               "model-00002-of-00002.safetensors"};

std::array<std::string, 3> GoodFiles() {
  const std::string data(32, 'x');
  return {R"({"metadata": {"total_size": 96}, "weight_map": {
             "a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
             "c": "model-00002-of-00002.safetensors"}})",
          fixtures::SafetensorsBytes({{"a", "BF16", {4, 4}, data}, {"b", "F32", {8}, data}}),
          fixtures::SafetensorsBytes({{"c", "U8", {32}, data}}, {{"format", "pt"}})};
}

std::vector<std::string> Seeds() {
  const auto files = GoodFiles();
  return {"0" + files[0], "1" + files[1], "2" + files[2]};
}

std::string TableProblem(const moepack::Checkpoint& checkpoint) {
  const moepack::TensorEntry* before = nullptr;
  for (const moepack::TensorEntry& tensor : checkpoint.tensors()) {
    if (checkpoint.Find(tensor.name) != &tensor) return "a name that Find does not find";
    if (tensor.file >= checkpoint.files().size()) return "a tensor in no file";
    const moepack::SourceFile& file = checkpoint.files()[tensor.file];
    const bool inside = tensor.offset >= file.data_start && tensor.offset <= file.size &&
                        tensor.bytes <= file.size - tensor.offset;
    if (!inside) return moepack::Cat(tensor.name, " leaves its file");
    if (before != nullptr && before->file == tensor.file &&
        before->offset + before->bytes > tensor.offset) {
      return moepack::Cat(tensor.name, " overlaps the one before it, or is out of order");
    }
    before = &tensor;
  }
  return checkpoint.CheckUnchanged() ? "" : "changed, says CheckUnchanged";
}

std::string Check(std::string_view input) {
  static const fixtures::TempDir dir;
  auto files = GoodFiles();
  if (input.empty()) input = "0";
  files[static_cast<unsigned char>(input[0]) % files.size()] = input.substr(1);
  for (size_t i = 0; i < files.size(); ++i) {
    if (!fuzz::WriteInput(dir / kNames[i], files[i])) return "cannot write the input";
  }
  const auto checkpoint = moepack::Checkpoint::Open(dir.path());
  if (checkpoint) return TableProblem(*checkpoint);
  return fuzz::ErrorProblem(checkpoint.error(), dir.path().string());
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace checkpoint_target

FUZZ_TARGET(FuzzCheckpoint, checkpoint_target::kTarget)
