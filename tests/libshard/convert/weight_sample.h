// Tiny weights in a checkpoint on disk, read as the converters read them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/convert/weights/weight.h"
#include "quant/format.h"

namespace moepack {

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The tensors of one module "m", all in one file unless they are moved to another.
class WeightSample {
 public:
  std::string quantization = "{}";  // quantization_config
  std::vector<fixtures::RawTensor> tensors, elsewhere;

  void Add(const std::string& leaf, const std::string& dtype, std::vector<uint64_t> shape,
           const std::string& bytes) {
    tensors.push_back({"m." + leaf, dtype, std::move(shape), bytes});
  }
  fixtures::RawTensor& Tensor(const std::string& leaf) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const auto& tensor) { return tensor.name == "m." + leaf; });
  }
  void Remove(const std::string& leaf) {
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == "m." + leaf; });
  }
  void MoveElsewhere(const std::string& leaf) {
    elsewhere.push_back(Tensor(leaf));
    Remove(leaf);
  }

  // Errors of the checkpoint or the config are returned like those of the weight.
  Result<Weight> Read() {
    EXPECT_TRUE(fixtures::WriteSafetensors(*dir_ / "a.safetensors", tensors));
    if (!elsewhere.empty()) {
      EXPECT_TRUE(fixtures::WriteSafetensors(*dir_ / "b.safetensors", elsewhere));
    }
    SHARD_TRY(checkpoint_, Checkpoint::Open(dir_->path()));
    const std::string text = "{\"quantization_config\": " + quantization + "}";
    SHARD_TRY(const HfConfig config, HfConfig::Parse("config.json", text));
    SHARD_TRY(config_, ReadWeightConfig(config));
    StoredWeight stored("m");
    for (const TensorEntry& entry : checkpoint_.tensors()) {
      EXPECT_TRUE(stored.Add(std::string_view(entry.name).substr(2), entry));
    }
    return ReadWeight({checkpoint_, config_}, stored);
  }

  // Rows [first, first + count) of a weight that was read.
  std::vector<float> Rows(const RowReader& reader, uint64_t first, uint64_t count) const {
    const std::vector<std::byte> bytes = Bytes(reader, first, count);
    std::vector<float> out(count * reader.row_values());
    const Status decoded = reader.Decode({first, count, bytes}, out);
    EXPECT_TRUE(decoded) << decoded.error().message;
    return out;
  }
  // The error of Decode for a row.
  std::string RowError(const RowReader& reader, uint64_t row) const {
    std::vector<float> out(reader.row_values());
    const Status decoded = reader.Decode({row, 1, Bytes(reader, row, 1)}, out);
    return decoded ? "" : decoded.error().message;
  }
  std::vector<std::byte> Bytes(const RowReader& reader, uint64_t first, uint64_t count) const {
    std::vector<SourceRange> ranges;
    reader.AddReads(first, count, ranges);
    std::vector<std::byte> bytes;
    for (const SourceRange& range : ranges) {
      const InputFile file = InputFile::Open(checkpoint_.files()[range.file].path).value();
      const size_t at = bytes.size();
      bytes.resize(at + range.bytes);
      EXPECT_TRUE(file.ReadAt(range.offset, std::span(bytes).subspan(at)));
    }
    EXPECT_EQ(bytes.size(), ReadBytes(reader, first, count));
    return bytes;
  }
  // All rows at once, and again one by one: every split must give the same values.
  std::vector<float> Values(const Weight& weight) const {
    const RowReader& reader = *weight.reader;
    std::vector<float> all = Rows(reader, 0, reader.rows()), single;
    for (uint64_t row = 0; row < reader.rows(); ++row) {
      for (const float value : Rows(reader, row, 1)) single.push_back(value);
    }
    EXPECT_EQ(BytesOf(all), BytesOf(single)) << "row by row";
    return all;
  }
  std::string ErrorText() {
    const auto weight = Read();
    EXPECT_FALSE(weight);
    return weight ? "" : weight.error().message;
  }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  // After Read.
  WeightSource source() const { return {checkpoint_, config_}; }

 private:
  std::shared_ptr<const fixtures::TempDir> dir_ = std::make_shared<fixtures::TempDir>();
  Checkpoint checkpoint_;
  WeightConfig config_;
};

}  // namespace moepack
