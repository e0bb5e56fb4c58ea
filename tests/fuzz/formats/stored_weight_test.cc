// ReadWeight and the rows that its readers make: a weight in one safetensors file, stored in the
// way that a quantization_config says. An input is that section on one line, and the file.
#include <nlohmann/json.hpp>

#include "fixtures/safetensors_writer.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/convert/weights/weight.h"
#include "tests/fuzz/safetensors_structure.h"
#include "tests/fuzz/target.h"

namespace stored_weight_target {

using fixtures::RawTensor;
using moepack::Cat;
using moepack::RowReader;

constexpr const char* kTree = "damaged";
constexpr const char* kFile = "model.safetensors";
// Weights of more values are opened but not decoded.
constexpr uint64_t kMostValues = 1u << 14;

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string Seed(const std::string& section, const std::vector<RawTensor>& tensors) {
  return section + "\n" + fixtures::SafetensorsBytes(tensors);
}

std::vector<std::string> Seeds() {
  const std::string bytes(32, 0x38);  // 1 in F8_E4M3
  const std::vector<float> ones(16, 1.0f);
  const std::vector<uint32_t> words(16, 0x76543210);
  const auto scales = [&](size_t count) { return BytesOf(ones).substr(0, count * sizeof(float)); };
  const auto packed = [&](size_t count) { return BytesOf(words).substr(0, count * 4); };
  return {
      Seed("{}", {{"m.weight", "BF16", {4, 4}, bytes}}),
      Seed(R"({"quant_method": "fp8", "weight_block_size": [2, 3]})",
           {{"m.weight", "F8_E4M3", {4, 8}, bytes},
            {"m.weight_scale_inv", "F32", {2, 3}, scales(6)}}),
      Seed(R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups":)"
           R"( {"group_0": {"weights": {"num_bits": 4, "type": "int", "symmetric": true,)"
           R"( "group_size": 4}}}})",
           {{"m.weight_packed", "I32", {3, 2}, packed(6)},
            {"m.weight_scale", "F32", {3, 3}, scales(9)},
            {"m.weight_shape", "I32", {2}, BytesOf<int32_t>({3, 10})}}),
      Seed(R"({"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": false})",
           {{"m.qweight", "I32", {2, 8}, packed(16)},
            {"m.qzeros", "I32", {2, 1}, packed(2)},
            {"m.scales", "F32", {2, 8}, scales(16)},
            {"m.g_idx", "I32", {16}, BytesOf(std::vector<int32_t>(16, 1))}}),
      Seed(R"({"quant_method": "awq", "bits": 4, "group_size": 8, "version": "gemm",)"
           R"( "zero_point": true})",
           {{"m.qweight", "I32", {16, 1}, packed(16)},
            {"m.qzeros", "I32", {2, 1}, packed(2)},
            {"m.scales", "F32", {2, 8}, scales(16)}}),
      Seed(R"({"quant_method": "mxfp4"})", {{"m.blocks", "U8", {2, 1, 1, 16}, bytes},
                                            {"m.scales", "U8", {2, 1, 1}, bytes.substr(0, 2)}}),
      Seed(R"({"quant_method": "fp8", "weight_block_size": [2, 3]})",
           {{"m.weight", "F8_E4M3", {4, 8}, bytes},
            {"m.scale", "F8_E8M0", {2, 3}, bytes.substr(0, 6)}}),
      Seed(
          R"({"quant_method": "fp8", "weight_block_size": [2, 3]})",
          {{"m.weight", "I8", {2, 16}, bytes}, {"m.scale", "F8_E8M0", {2, 1}, bytes.substr(0, 2)}}),
      Seed(R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"format":)"
           R"( "int-quantized", "weights": {"strategy": "group", "group_size": 3}}, "b":)"
           R"( {"format": "mxfp4-pack-quantized", "weights": {}}}})",
           {{"m.weight", "I8", {4, 8}, bytes}, {"m.weight_scale", "F32", {4, 3}, scales(12)}}),
      Seed(R"({"quant_method": "gptq", "bits": 8, "group_size": 8, "dynamic": {"+:m":)"
           R"( {"bits": 4, "group_size": 16}}})",
           {{"m.qweight", "I32", {2, 8}, packed(16)},
            {"m.qzeros", "I32", {1, 1}, packed(1)},
            {"m.scales", "F32", {1, 8}, scales(8)}}),
      Seed(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})",
           {{"m.weight", "U8", {2, 16}, bytes},
            {"m.weight_scale", "F8_E4M3", {2, 2}, bytes.substr(0, 4)},
            {"m.weight_scale_2", "F32", {}, scales(1)}})};
}

// Reads the bytes of rows [first, first + count), or says which of them are in no file.
std::string ReadRows(const moepack::Checkpoint& checkpoint, const RowReader& reader, uint64_t first,
                     uint64_t count, std::vector<std::byte>& bytes) {
  std::vector<moepack::SourceRange> ranges;
  reader.AddReads(first, count, ranges);
  bytes.clear();
  for (const moepack::SourceRange& range : ranges) {
    if (range.file >= checkpoint.files().size()) return "rows of no file";
    const moepack::SourceFile& file = checkpoint.files()[range.file];
    if (range.offset > file.size || range.bytes > file.size - range.offset)
      return "rows that leave their file";
    const auto source = file.tree->Open(file.name);
    const size_t at = bytes.size();
    bytes.resize(at + range.bytes);
    if (!source || !(*source)->ReadAt(range.offset, std::span(bytes).subspan(at)))
      return "rows that cannot be read";
  }
  const moepack::RowRoom room = reader.Room();
  return bytes.size() <= room.fixed + count * room.per_row ? "" : "more bytes than Room says";
}

// Decodes rows [first, first + count) and appends them, or appends nothing and clears `good`.
std::string Decode(const moepack::Checkpoint& checkpoint, const RowReader& reader, uint64_t first,
                   uint64_t count, std::vector<float>& out, bool& good) {
  std::vector<std::byte> bytes;
  const std::string problem = ReadRows(checkpoint, reader, first, count, bytes);
  if (!problem.empty()) return problem;
  std::vector<float> rows(count * reader.row_values());
  const moepack::Status decoded = reader.Decode({first, count, bytes}, rows);
  if (!decoded) {
    good = false;
    return fuzz::ErrorProblem(decoded.error(), kTree);
  }
  out.insert(out.end(), rows.begin(), rows.end());
  return "";
}

// Rows are the same, or refused, however they are cut.
std::string RowsProblem(const moepack::Checkpoint& checkpoint, const RowReader& reader) {
  std::vector<float> all, single;
  bool all_good = true, single_good = true;
  std::string problem = Decode(checkpoint, reader, 0, reader.rows(), all, all_good);
  for (uint64_t row = 0; problem.empty() && row < reader.rows(); ++row)
    problem = Decode(checkpoint, reader, row, 1, single, single_good);
  if (!problem.empty()) return problem;
  if (all_good != single_good) return "rows that are refused together, but not one by one";
  return !all_good || BytesOf(all) == BytesOf(single) ? "" : "other rows one by one";
}

std::string RepackProblem(const moepack::Checkpoint& checkpoint, const RowReader& reader) {
  for (const char* name : {"mxfp4", "q4_0"}) {
    const quant::Format* to = quant::FindFormat(name);
    if (!reader.CanRepack(to)) continue;
    const auto size = to->BytesFor(reader.rows() * reader.row_values());
    if (!size) return Cat("rows that do not fill blocks of ", name);
    std::vector<std::byte> bytes, out(*size);
    const std::string problem = ReadRows(checkpoint, reader, 0, reader.rows(), bytes);
    if (!problem.empty()) return problem;
    moepack::GridReport report;
    const auto packed = reader.Repack(to, {0, reader.rows(), bytes}, out, report);
    if (!packed) return fuzz::ErrorProblem(packed.error(), kTree);
  }
  return "";
}

std::string WeightProblem(const moepack::Checkpoint& checkpoint, const moepack::Weight& weight) {
  if (weight.main == nullptr || weight.stored == nullptr) return "a weight of no tensor or type";
  if (weight.reader == nullptr) return weight.plain != nullptr ? "" : "a weight without rows";
  const RowReader& reader = *weight.reader;
  uint64_t values = 1;
  for (const uint64_t length : weight.shape)
    if (__builtin_mul_overflow(values, length, &values)) return "a shape beyond 64 bits";
  if (reader.row_values() != (weight.shape.empty() ? 1 : weight.shape.back()) ||
      reader.rows() * reader.row_values() != values)
    return "rows of another shape";
  if (values > kMostValues || reader.rows() > kMostValues) return "";
  const std::string problem = RowsProblem(checkpoint, reader);
  return problem.empty() ? RepackProblem(checkpoint, reader) : problem;
}

struct Opened {
  moepack::Checkpoint checkpoint;
  moepack::WeightConfig config;
};

moepack::Result<Opened> OpenInput(std::string_view input) {
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string text = Cat("{\"quantization_config\": ", input.substr(0, line), "}");
  SHARD_TRY(const moepack::HfConfig parsed, moepack::HfConfig::Parse(Cat(kTree, "/config"), text));
  Opened opened;
  SHARD_TRY(opened.config, moepack::ReadWeightConfig(parsed));
  const auto tree = std::make_shared<moepack::MemoryTree>(kTree);
  tree->Add(kFile, std::string(input.substr(std::min(line + 1, input.size()))));
  SHARD_TRY(opened.checkpoint, moepack::Checkpoint::Open(moepack::Source{kTree, tree, ""}));
  return opened;
}

moepack::Result<moepack::Weight> Read(const Opened& opened) {
  moepack::StoredWeight stored("m");
  for (const moepack::TensorEntry& entry : opened.checkpoint.tensors()) {
    const std::string_view name = entry.name;
    if (name.starts_with("m.")) stored.Add(name.substr(2), entry);
  }
  if (stored.empty())
    return moepack::Error{moepack::Code::kNotFound, Cat(kTree, ": no tensors of the weight")};
  return moepack::ReadWeight({opened.checkpoint, opened.config}, stored);
}

std::string Check(std::string_view input) {
  const auto opened = OpenInput(input);
  if (!opened) return fuzz::ErrorProblem(opened.error(), kTree);
  const auto weight = Read(*opened);
  if (!weight) return fuzz::ErrorProblem(weight.error(), kTree);
  return WeightProblem(opened->checkpoint, *weight);
}

// Changes the file, which is the rest after the first line.
std::string ChangeFile(const std::string& input, uint64_t seed) {
  const size_t file = std::min(input.find('\n'), input.size() - 1) + 1;
  return input.substr(0, file) + fuzz::ChangeSafetensors(input.substr(file), seed);
}

bool Accepts(std::string_view input) {
  const auto opened = OpenInput(input);
  return opened && Read(*opened);
}

std::vector<std::string> Refused() {
  const std::string bytes(32, 0x38);
  return {
      "",
      "{}",
      "{}\n",
      Seed("{}", {{"x.weight", "BF16", {4, 4}, bytes}}),
      Seed("{}", {{"m.weight", "F8_E5M2", {4, 8}, bytes}}),
      Seed(R"({"quant_method": "fp8", "weight_block_size": [2, 3]})",
           {{"m.weight", "F8_E4M3", {4, 8}, bytes}}),
      Seed(R"({"quant_method": "mxfp4"})", {{"m.blocks", "U8", {2, 1, 1, 16}, bytes},
                                            {"m.scales", "U8", {1, 2, 1}, bytes.substr(0, 2)}})};
}

constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .restructure = ChangeFile,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace stored_weight_target

FUZZ_STRUCTURE_TARGET(FuzzStoredWeight, stored_weight_target::kTarget)
