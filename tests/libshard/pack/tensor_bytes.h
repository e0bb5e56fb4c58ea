// The contents of a tensor of a GgufModel, made from its sources row by row in the simplest way.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "libshard/convert/gguf_model.h"
#include "libshard/convert/row_reader.h"
#include "libshard/format/checkpoint.h"

namespace moepack::golden {

// The bytes of source ranges, one range after another.
inline std::string ReadRanges(const Checkpoint& checkpoint,
                              const std::vector<SourceRange>& ranges) {
  std::string bytes;
  for (const SourceRange& range : ranges) {
    const InputFile file = InputFile::Open(checkpoint.files()[range.file].path).value();
    const size_t at = bytes.size();
    bytes.resize(at + range.bytes);
    const auto out = std::as_writable_bytes(std::span(bytes)).subspan(at);
    if (!file.ReadAt(range.offset, out)) return "cannot be read";
  }
  return bytes;
}

// The rows of a matrix of `width` columns in the order `rows`.
inline std::vector<float> Rows(const std::vector<float>& values, size_t width,
                               const std::vector<size_t>& rows) {
  std::vector<float> out;
  for (const size_t row : rows) {
    for (size_t i = 0; i < width; ++i) out.push_back(values.at(row * width + i));
  }
  return out;
}

// The rows as F32; `repacked` gets what the reader makes directly in `type`, where it can.
inline std::vector<float> ReadRows(const Checkpoint& checkpoint, const GgufTensor& tensor,
                                   std::string* repacked = nullptr) {
  std::vector<float> values(tensor.elements());
  const uint64_t width = tensor.row_values();
  if (tensor.reader == nullptr) {
    const std::string bytes = tensor.literal + ReadRanges(checkpoint, tensor.sources);
    if (bytes.size() != tensor.stored->BytesFor(values.size())) return {};
    const uint64_t from = *tensor.stored->BytesFor(width);
    for (uint64_t row = 0; row < values.size() / width; ++row) {
      tensor.stored->decode(std::as_bytes(std::span(bytes).subspan(row * from, from)),
                            std::span(values).subspan(row * width, width));
    }
    return values;
  }
  const bool repack = repacked != nullptr && tensor.KeepsGrid(tensor.type);
  uint64_t at = 0;
  for (const RowRange& range : tensor.rows) {
    std::vector<SourceRange> reads;
    tensor.reader->AddReads(range.first, range.count, reads);
    const std::string bytes = ReadRanges(checkpoint, reads);
    const auto in = std::as_bytes(std::span(bytes));
    if (at + range.count * width > values.size()) return {};
    const RowBytes rows{range.first, range.count, in};
    if (!tensor.reader->Decode(rows, std::span(values).subspan(at, range.count * width))) return {};
    at += range.count * width;
    if (!repack) continue;
    std::string made(*tensor.type->BytesFor(range.count * width), '\0');
    GridReport report;
    if (!tensor.reader->Repack(tensor.type, rows, std::as_writable_bytes(std::span(made)),
                               report)) {
      return {};
    }
    *repacked += made;
  }
  return at == values.size() ? values : std::vector<float>();
}

// The tensor as it would be written in its `type`.
inline std::string MadeBytes(const Checkpoint& checkpoint, const GgufTensor& tensor) {
  if (tensor.reader == nullptr && tensor.type == tensor.stored) {
    return tensor.literal + ReadRanges(checkpoint, tensor.sources);
  }
  std::string made;
  const std::vector<float> values = ReadRows(checkpoint, tensor, &made);
  if (!made.empty()) return made;
  if (values.empty()) return "the sources have another size";
  const uint64_t width = tensor.row_values(), rows = values.size() / width;
  const uint64_t to = *tensor.type->BytesFor(width);
  if (tensor.type->encode == nullptr) return "no codec";
  made.resize(rows * to);
  for (uint64_t i = 0; i < rows; ++i) {
    std::span<const float> importance;
    const uint64_t per_expert = tensor.expert_count == 0 ? rows : rows / tensor.expert_count;
    if (tensor.importance != nullptr) {
      importance = tensor.importance->Row(static_cast<uint32_t>(i / per_expert));
    }
    tensor.type->encode(std::span(values).subspan(i * width, width), importance,
                        std::as_writable_bytes(std::span(made)).subspan(i * to, to));
  }
  return made;
}

}  // namespace moepack::golden
