// REAP's observations as safetensors, whose tensors are named "<layer>.<measure>".
#include <array>
#include <map>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"
#include "libshard/import/importers.h"
#include "libshard/import/reap_columns.h"

namespace moepack {
namespace {

template <class T>
std::vector<double> ValuesOf(std::span<const std::byte> bytes) {
  std::vector<double> values;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T))
    values.push_back(static_cast<double>(LoadLe<T>(bytes.subspan(at))));
  return values;
}

struct NumberType {
  std::string_view dtype;
  std::vector<double> (*read)(std::span<const std::byte>);
};
// The types that PyTorch uses for sums and counters.
constexpr std::array kNumberTypes = {
    NumberType{"F32", ValuesOf<float>}, NumberType{"F64", ValuesOf<double>},
    NumberType{"I32", ValuesOf<int32_t>}, NumberType{"I64", ValuesOf<int64_t>}};

constexpr uint64_t kMaxColumnBytes = kMaxStatisticsExperts * sizeof(double);

Result<std::vector<double>> ReadColumnTensor(const ByteSource& file, const TensorEntry& tensor) {
  const std::string place = Cat(file.name(), ": tensor ", Quoted(tensor.name));
  if (tensor.bytes > kMaxColumnBytes)
    return Error{Code::kCorrupt, Cat(place, ": expected one number per expert, at most ",
                                     kMaxColumnBytes, " bytes, found ", tensor.bytes)};
  for (const NumberType& type : kNumberTypes) {
    if (type.dtype != tensor.dtype) continue;
    std::vector<std::byte> bytes(tensor.bytes);
    SHARD_CHECK(file.ReadAt(tensor.offset, bytes));
    return type.read(bytes);
  }
  return Error{Code::kUnsupported,
               Cat(place, ": expected F32, F64, I32 or I64, found ", Shown(tensor.dtype))};
}

Result<ExpertScores> ReadReapTensors(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_TRY(const SafetensorsHeader header, ReadSafetensorsHeader(file, where));
  std::map<uint64_t, ReapLayer> by_number;
  for (const TensorEntry& tensor : header.tensors) {
    const size_t dot = tensor.name.find('.');
    const auto number = ParseUint(tensor.name.substr(0, dot));
    if (dot == tensor.name.npos || !number)
      return Error{Code::kUnsupported,
                   Cat(where, ": tensor ", Quoted(tensor.name),
                       ": expected a name such as \"0.expert_frequency\", found another"),
                   "statistics as safetensors are those of REAP (docs/statistics-formats.md)"};
    const std::string measure = tensor.name.substr(dot + 1);
    if (!IsReapColumn(measure)) continue;
    ReapLayer& layer = by_number[*number];
    layer.layer = *number;
    SHARD_TRY(layer.columns[measure], ReadColumnTensor(file, tensor));
  }
  std::vector<ReapLayer> layers;
  for (auto& [number, layer] : by_number) layers.push_back(std::move(layer));
  return ScoresFromReap(where, std::move(layers), options);
}

// A header length of eight bytes, and the header's object.
bool LooksLikeSafetensors(std::string_view head) {
  if (head.size() <= kSafetensorsLengthBytes || head[kSafetensorsLengthBytes] != '{') return false;
  return LoadLe<uint64_t>(std::as_bytes(std::span(head))) <= kMaxSafetensorsHeader;
}

}  // namespace

constinit const Importer kReapTensorsImporter = {
    "reap-tensors", "the same as safetensors, with tensors named <layer>.<measure>",
    LooksLikeSafetensors, ReadReapTensors};

}  // namespace moepack
