#include "libshard/pack/read_back.h"

#include <span>
#include <string_view>

#include "libshard/base/files/unreadable.h"
#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"

namespace moepack {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";

Error Refused(const OutputFile& file, const std::string& reason) {
  return Unreadable(file.path, "a header", reason);
}

// Parsers sort by offset; tensors without bytes may be in any order.
bool SameTensors(const std::vector<TensorEntry>& read, const std::vector<OutputTensor>& written) {
  if (read.size() != written.size()) return false;
  for (size_t i = 0; i < read.size(); ++i) {
    const TensorEntry& entry = written[i].entry;
    if (read[i].offset != entry.offset || read[i].bytes != entry.bytes) return false;
    const bool same = read[i].name == entry.name && read[i].shape == entry.shape;
    if (!same && entry.bytes > 0) return false;
  }
  return true;
}

Status Compare(const OutputFile& file, const std::vector<TensorEntry>& read) {
  if (SameTensors(read, file.tensors)) return Ok();
  return Refused(file, "it would find other tensors than were written");
}

}  // namespace

Status ReadBackHeaders(const std::vector<OutputFile>& files) {
  for (const OutputFile& file : files) {
    const auto bytes = std::as_bytes(std::span(file.prefix.data(), file.prefix.size()));
    if (file.prefix.starts_with(kGgufMagic)) {
      // The parser itself has no limit; reading a file stops at this one (ReadGgufHeader).
      if (bytes.size() > kMaxGgufHeader) {
        return Refused(file,
                       Cat("expected at most ", kMaxGgufHeader, " bytes, found ", bytes.size()));
      }
      const Result<GgufHeader> header = ParseGguf(file.path, bytes, file.size);
      if (!header) return Refused(file, header.error().message);
      SHARD_CHECK(Compare(file, header->tensors));
    } else {
      const Result<SafetensorsHeader> header = ParseSafetensors(file.path, bytes, file.size);
      if (!header) return Refused(file, header.error().message);
      SHARD_CHECK(Compare(file, header->tensors));
    }
  }
  return Ok();
}

}  // namespace moepack
