#include "manifest/registry/transfer/cell_map.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

constexpr uint64_t kCellMapVersion = 1;

Error NotThisFile(const std::string& where, const char* key, const std::string& expected,
                  const std::string& found) {
  return {Code::kCorrupt, Cat(where, ": ", key, ": expected ", expected, ", found ", found)};
}

Status CheckNumber(const JsonFields& fields, const char* key, uint64_t expected) {
  SHARD_TRY(const uint64_t found, fields.Unsigned(key));
  if (found == expected) return Ok();
  return NotThisFile(fields.where(), key, Cat(expected), Cat(found));
}

}  // namespace

CellMap::CellMap(std::string sha256, uint64_t size, uint64_t cell_bytes)
    : sha256_(std::move(sha256)),
      size_(size),
      cell_bytes_(cell_bytes),
      done_(size / cell_bytes + (size % cell_bytes != 0 ? 1 : 0)) {}

uint64_t CellMap::BytesOf(uint64_t cell) const {
  return std::min(cell_bytes_, size_ - cell * cell_bytes_);
}

uint64_t CellMap::done_bytes() const {
  uint64_t bytes = 0;
  for (uint64_t cell = 0; cell < count(); ++cell) bytes += Has(cell) ? BytesOf(cell) : 0;
  return bytes;
}

std::string CellMap::Text() const {
  std::string done;
  for (const bool bit : done_) done += bit ? '1' : '0';
  const Json json = {{"version", kCellMapVersion},
                     {"sha256", sha256_},
                     {"size", size_},
                     {"cell_bytes", cell_bytes_},
                     {"done", std::move(done)}};
  return json.dump() + "\n";
}

Status CellMap::Read(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json json, ParseJson(where, text));
  const JsonFields fields(json, where);
  SHARD_CHECK(CheckNumber(fields, "version", kCellMapVersion));
  SHARD_TRY(const std::string sha256, fields.String("sha256"));
  // A map of other content would mark wrong bytes as done.
  if (sha256 != sha256_) return NotThisFile(where, "sha256", sha256_, Quoted(sha256));
  SHARD_CHECK(CheckNumber(fields, "size", size_));
  SHARD_CHECK(CheckNumber(fields, "cell_bytes", cell_bytes_));
  SHARD_TRY(const std::string done, fields.String("done"));
  if (done.size() != count() || done.find_first_not_of("01") != done.npos)
    return NotThisFile(where, "done", Cat(count(), " digits, each 0 or 1"), Quoted(done));
  for (uint64_t cell = 0; cell < count(); ++cell) Set(cell, done[cell] == '1');
  return Ok();
}

}  // namespace moepack::registry
