// Reads a text file line by line, whatever its size, as it is or in zstd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/result.h"

namespace moepack {

class TraceLines {
 public:
  // Borrows the source.
  explicit TraceLines(const ByteSource& source) : name_(source.name()), text_(source) {}

  // The next line without its end (LF or CR LF), valid until the next call; no value after the
  // last. kCorrupt for a line that is longer than any row.
  Result<std::optional<std::string_view>> Next();
  // kCorrupt: the line that Next returned last is wrong.
  Error Wrong(std::string_view expected, std::string_view found) const;
  const std::string& Name() const { return name_; }
  // "trace.csv: line 12".
  std::string Where() const;
  // XXH3-128 of everything read.
  std::string Digest() const { return digest_.Hex(); }

 private:
  Status Fill();

  const std::string& name_;
  SourceText text_;
  Xxh3 digest_;
  std::string buffer_;
  size_t next_ = 0;  // of the first byte in buffer_ that is not part of a returned line
  uint64_t number_ = 0;
  bool ended_ = false;
};

// Splits at commas, reusing the same vector.
void SplitTraceRow(std::string_view line, std::vector<std::string_view>& fields);

}  // namespace moepack
